def answer(lab):
    lab.enqueue()
    lab.look("A")
    lab.claim("B")
    lab.finish("B")
    lab.take("A")
