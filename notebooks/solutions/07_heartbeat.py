def answer(lab):
    lab.enqueue()
    lab.play_to(1).claim("A")
    for t in (60, 119, 178):
        lab.play_to(t).renew("A")
    for t in (237, 238):
        lab.play_to(t).claim("B")
