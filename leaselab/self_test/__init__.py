"""The self-test: choose, lock in, and see the verdict with what the lab or a search says."""

from leaselab.self_test.choice import MultipleChoice, SelfTest

__all__ = ["MultipleChoice", "SelfTest"]
