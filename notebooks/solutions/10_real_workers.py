import time


def answer(workers):
    workers.start("A", "--seconds", "0.3")
    workers.enqueue()
    workers.wait("A", "renew")
    workers.suspend("A")
    time.sleep(0.2)
    workers.resume("A")
    workers.wait("A", "ack")
