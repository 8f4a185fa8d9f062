def answer(lab):
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(20).renew("A")
    lab.crash("A")
    for t in (49, 50):
        lab.play_to(t).claim("B")
