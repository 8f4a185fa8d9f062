"""What the tests share."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from leaselab import Store
from leaselab.errors import StoreError

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
def server():
    """A PostgreSQL server; without one the tests that want it are skipped, and say so."""
    try:
        from leaselab.postgres import PostgresServer

        server = PostgresServer()
    except StoreError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    with server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def either_server(request):
    """None for a file, and then a PostgreSQL server: what holds on one must hold on the other."""
    return request.getfixturevalue("server") if request.param == "postgres" else None


@pytest.fixture(scope="session")
def oracle():
    """The reference traces, by scenario."""
    text = (ROOT / "tests" / "data" / "scenarios.json").read_text(encoding="utf-8")
    return {scenario["key"]: scenario for scenario in json.loads(text)["scenarios"]}
