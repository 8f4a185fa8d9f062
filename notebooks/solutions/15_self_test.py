def answer(lab):
    lab.enqueue()
    lab.play_to(1).claim("A")
    lab.play_to(31).claim("B")
    lab.play_to(32).finish("A")
    text = "A's lease has ended and B has taken over. A finishes. What does the row say?"
    choices = {
        "running": "It is running, and B holds it.",
        "done": "It is done: A's work is finished.",
        "pending": "It is pending, and will be claimed once more.",
    }
    return text, choices, lab.trace.tasks[0]["state"]
