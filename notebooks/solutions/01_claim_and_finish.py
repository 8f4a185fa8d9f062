def answer(lab):
    lab.enqueue()
    for worker in ("A", "B"):
        lab.claim(worker)
        lab.release(worker)
