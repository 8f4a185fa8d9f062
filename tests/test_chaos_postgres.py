"""A short chaos run on PostgreSQL: a dozen kills. ``make chaos`` does a thousand on SQLite."""

import sys

import pytest

FORGERIES = {
    "a task that is not final": "UPDATE tasks SET state = 'pending' WHERE id = 2",
    "a generation that no claim gave out": "UPDATE tasks SET generation = 9 WHERE id = 2",
    "a result that was not accepted": 'UPDATE runs SET value = \'{"1": "A, generation 7"}\'',
    "a result that is lost": "UPDATE runs SET value = NULL",
    "a task that was lost": "DELETE FROM log WHERE action = 'commit'",
    "a poison run that never failed": "UPDATE tasks SET state = 'done' WHERE state = 'failed'",
    "a stale write": "UPDATE log SET generation = 9 WHERE action = 'commit'",
    "two holders at once": "UPDATE log SET now = 0 WHERE action = 'claim' AND generation > 1",
    "a result that was accepted twice": "UPDATE log SET action = 'commit' WHERE action = 'renew'",
}


@pytest.fixture(scope="module")
def ended(server, tmp_path_factory):
    from chaos_postgres import chaos

    said = tmp_path_factory.mktemp("chaos") / "said.txt"
    with chaos(kills=12, seed=7, said=said, server=server) as ended:
        yield ended


def test_after_a_dozen_kills_nothing_is_lost_and_nothing_was_done_twice(ended):
    counts = ended.check()
    print(counts, file=sys.stderr)
    assert counts["kills"] >= 12 and counts["takeovers"] > 0


@pytest.mark.parametrize("forgery", FORGERIES)
def test_the_check_after_the_chaos_does_not_pass(forgery, ended):
    ended.store.fetch("BEGIN")
    try:
        ended.store.fetch(FORGERIES[forgery])
        with pytest.raises(AssertionError):
            ended.check()
    finally:
        ended.store.fetch("ROLLBACK")
