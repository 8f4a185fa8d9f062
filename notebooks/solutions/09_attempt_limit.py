def answer(lab):
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(2).release("A")
    lab.claim("B")
    lab.play_to(32).finish("B")
    lab.claim("A")
    lab.play_to(62).claim("B")
    lab.exhaust("B")
