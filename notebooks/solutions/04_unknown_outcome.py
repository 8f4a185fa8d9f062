def answer(lab, truth):
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(25).call_external("A", **truth)
    lab.renew("A")
    lab.play_to(40).finish("A", "uncertain")
