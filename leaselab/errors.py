"""What a wrong argument or a wrong file ends in: one plain sentence that names it and the way out."""

LARGEST = 2**62  # SQLite's integers have 64 bits, and two times are added


class _PlainSentence(Exception):
    def _render_traceback_(self):
        """In a notebook, show the sentence alone (IPython asks the exception for this)."""
        return [f"{type(self).__name__}: {self}"]


class InputError(_PlainSentence, ValueError):
    """An argument that cannot be used."""


class UnknownName(InputError, KeyError):
    """A name that is none of the known ones, which the sentence lists."""

    def __str__(self):
        return self.args[0]


class StoreError(_PlainSentence, OSError):
    """A file that cannot be used."""


def whole_number(name, value, at_least=0):
    """Return ``value`` if it is an integer of at least ``at_least``; else raise ``InputError``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InputError(f"{name} must be a whole number of at least {at_least}, not {value!r}.")
    if value > LARGEST:
        raise InputError(f"{name} must be at most {LARGEST}, not {value!r}.")
    return value
