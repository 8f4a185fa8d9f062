"""What the tests share."""

import json
from pathlib import Path

import pytest

from leaselab import Store

ROOT = Path(__file__).parent.parent


@pytest.fixture
def path(tmp_path):
    """Where a store's file will be."""
    return tmp_path / "lab.sqlite"


@pytest.fixture
def store(path):
    """A store on a real file, with one task that may be claimed from t=0 on."""
    with Store(path) as store:
        store.enqueue("run-1", now=0)
        yield store


@pytest.fixture(scope="session")
def oracle():
    """The reference traces, by scenario."""
    text = (ROOT / "tests" / "data" / "scenarios.json").read_text(encoding="utf-8")
    return {scenario["key"]: scenario for scenario in json.loads(text)["scenarios"]}
