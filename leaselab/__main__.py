"""``python -m leaselab doctor``: can the lessons work on this machine?"""

import sys

from leaselab import doctor


def main(arguments):
    """Print the examination. Returns 1 if a lesson cannot work, 2 for what is no command."""
    if arguments != ["doctor"]:
        given = " ".join(arguments) or "nothing"
        print(f"leaselab: there is one command, doctor, not {given}.", file=sys.stderr)
        return 2
    examination = doctor.examine()
    print(examination)
    return 0 if examination.well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
