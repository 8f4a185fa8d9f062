def answer(lab, truth):
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(3).call_external("A", **truth)
    lab.play_to(4).finish("A", "uncertain")
