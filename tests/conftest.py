"""What the tests share."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from leaselab import Store

ROOT = Path(__file__).parent.parent


def pytest_configure(config):
    """Labs make their files here: nbval kills its kernels, which then cannot clean up."""
    config.temporary = tempfile.mkdtemp(prefix="leaselab-tests-")
    os.environ["TMPDIR"] = tempfile.tempdir = config.temporary


def pytest_unconfigure(config):
    shutil.rmtree(config.temporary, ignore_errors=True)


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
