def answer(lab):
    lab.enqueue()
    for t in (1, 31):
        lab.play_to(t).claim("A")
    lab.finish("A", generation=1)
