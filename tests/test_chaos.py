"""A short chaos run: a dozen kills. ``make chaos`` does a thousand."""

import json
import sys

import pytest
from chaos import chaos


@pytest.fixture(scope="module")
def ended():
    with chaos(kills=12, seed=7) as ended:
        yield ended


def test_after_a_dozen_kills_nothing_is_lost_and_nothing_was_done_twice(ended):
    counts = ended.check()
    print(counts, file=sys.stderr)
    assert counts["kills"] >= 12 and counts["takeovers"] > 0


FORGERIES = {
    "a task that is not final": "UPDATE tasks SET state = 'pending' WHERE id = 1",
    "a generation that no claim gave out": "UPDATE tasks SET generation = 9 WHERE id = 2",
    "a result that was not accepted": 'UPDATE runs SET value = \'{"1": "A, generation 7"}\'',
    "a result that is lost": "UPDATE runs SET value = NULL",
    "a task that was lost": "UPDATE log SET line = replace(line, '\"committed\"', 'null')",
    "a poison run that never failed": "UPDATE runs SET state = 'active', failure = NULL",
    "a stale write": "UPDATE log SET line = json_set(line, '$.before.generation', 9) "
    "WHERE line ->> 'returned' = 'committed'",
    "a late write": "UPDATE log SET line = json_set(line, '$.before.lease_until', 0) "
    "WHERE line ->> 'returned' = 'committed'",
    "two holders at once": "UPDATE log SET line = json_set(line, '$.t', 0) "
    "WHERE line ->> 'action' = 'claim' AND line ->> 'returned' > 1",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_the_check_after_the_chaos_does_not_pass(forgery, ended):
    ended.log.store.fetch("BEGIN")
    try:
        ended.log.store.fetch(FORGERIES[forgery])
        with pytest.raises(AssertionError):
            ended.check()
    finally:
        ended.log.store.fetch("ROLLBACK")


def test_a_result_that_was_accepted_twice_does_not_pass(ended):
    lines = [json.loads(line) for line in ended.log.lines()]
    twice = next(json.dumps(line) for line in lines if line["returned"] == "committed")
    ended.log.store.fetch("BEGIN")
    try:
        ended.log.store.fetch("INSERT INTO log (line) VALUES (?)", (twice,))
        with pytest.raises(AssertionError, match="was accepted twice"):
            ended.check()
    finally:
        ended.log.store.fetch("ROLLBACK")
