def answer(lab):
    lab.enqueue()
    lab.play_to(7)
    lab.claim("A")
