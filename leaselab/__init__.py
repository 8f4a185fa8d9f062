"""leaselab: who takes over a task when its worker stops, on a real SQLite file."""

from leaselab.lab import Lab
from leaselab.protocol import Protocol
from leaselab.scenarios import Scenario, Step, scenarios
from leaselab.store import Store

__all__ = ["Lab", "Protocol", "Scenario", "Step", "Store", "scenarios"]
