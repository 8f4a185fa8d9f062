"""Every schedule of a small scope, tried on the real statements."""

from leaselab.explore.matrix import Matrix
from leaselab.explore.own import check
from leaselab.explore.properties import PROPERTIES
from leaselab.explore.schedule import Schedule
from leaselab.explore.scope import Scope
from leaselab.explore.search import explore

__all__ = ["Matrix", "PROPERTIES", "Schedule", "Scope", "check", "explore"]
