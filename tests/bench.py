"""The bench: leaselab beside others, as ratios of what is measured in one and the same run.

``python tests/bench.py`` measures all; with ``queues``, ``panel``, ``start`` or ``search``, that part alone.
What is compared is measured in turns, so that a busy machine slows all of it down alike. A missed
target is said in the table, and is no failure: the machines that run this are shared.
"""

import os
import platform
import sqlite3
import sys
from importlib import import_module

PARTS = ("queues", "panel", "start", "search")


def main(parts):
    unknown = set(parts) - set(PARTS)
    if unknown:
        sys.exit(f"bench: there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}.")
    for part in parts or PARTS:
        print(f"# {part.capitalize()}\n", flush=True)
        for table in import_module(f"bench_{part}").tables():
            print_table(*table)
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    print(f"Measured on {os.cpu_count()} cores of {platform.machine()}, {versions}.")


def print_table(headings, rows, note):
    """Print a Markdown table, and its note below it.

    A row that has one cell more than there are headings ends in whether the target is met.
    """
    judged = any(len(row) > len(headings) for row in rows)
    lines = [[*headings, "verdict"] if judged else list(headings)]
    for row in rows:
        cells = list(row)
        if len(row) > len(headings):
            cells[-1] = "met" if row[-1] else "NOT met"
        lines.append(cells + [""] * (len(lines[0]) - len(cells)))
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        print("|", " | ".join(cell.ljust(width) for cell, width in zip(line, widths)), "|")
    print(f"\n{note}\n" if note else "", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
