"""A prediction: a question about the next step, an answer locked in, a verdict from the files."""

from leaselab.errors import InputError

INTENTS = {
    "claim": "{actor} tries to claim. What does the file answer?",
    "take": "{actor} takes the task that it saw. What does the file answer?",
    "renew": "{actor} renews its lease. What does the file answer?",
    "finish": "{actor} submits finish {outcome} with generation {generation}. "
    "What does the file answer?",
    "commit_run": "{actor} writes the run, having read revision {revision}. What comes back?",
    "exhaust": "{actor} asks whether its claim is one too many. What does the file answer?",
    "call_external": "{actor} calls the service. What does the ledger say then?",
}


class Question:
    """A question about a step that has not been done yet.

    Attributes:
        text: the question. ``choices``: the answers to choose from.
        answer: the answer that was locked in, or None.
        fact: what the files then said, or None as long as the step has not been done.
    """

    def __init__(self, step, external_calls):
        if step.action not in INTENTS:
            raise InputError(f"there is nothing to predict about {step.actor}'s {step.action}.")
        self.action = step.action
        words = {"outcome": "done", "generation": "its own", **step.arguments}
        self.text = f"t={step.t}: " + INTENTS[step.action].format(actor=step.actor, **words)
        self.choices = {
            "call_external": tuple(f"{external_calls + more}" for more in (0, 1)),
            "commit_run": ("committed", "revision_conflict", "lease_lost"),
        }.get(step.action, ("accepted", "refused"))
        self.answer = None
        self.fact = None
        self._why = ""

    def lock_in(self, answer):
        """Give the answer; it cannot be changed afterwards.

        Raises:
            InputError: it is none of ``choices``, an answer was locked in before, or the step has
                been done.
        """
        if self.fact is not None:
            raise InputError("the step is done; an answer comes before it.")
        if answer not in self.choices:
            raise InputError(f"the answer is one of {', '.join(self.choices)}, not {answer!r}.")
        if self.answer not in (None, answer):
            raise InputError(f"the answer {self.answer!r} is locked in already.")
        self.answer = answer

    def settle(self, event):
        """Take the verdict from the event that the step left."""
        if self.action == "call_external":
            self.fact = str(event.external_calls)
        elif self.action == "commit_run":
            self.fact = event.returned
        else:
            self.fact = "refused" if event.refused else "accepted"
        self._why = event.sentence

    @property
    def right(self):
        """True or False once both the answer and the fact are known, else None."""
        return None if None in (self.answer, self.fact) else self.answer == self.fact

    def __repr__(self):
        if self.answer is None and self.fact is not None:
            return f"The files say {self.fact}: {self._why}."
        if self.answer is None:
            return f"{self.text} {' or '.join(self.choices)}?"
        if self.fact is None:
            return f"{self.text} You said: {self.answer}. It is locked in."
        verdict = "right" if self.right else "wrong"
        return f"You said {self.answer}: {verdict}. The files say {self.fact}: {self._why}."
