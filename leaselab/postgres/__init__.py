"""PostgreSQL, for when one file is no longer enough: the same verbs, and a server to try them on.

Needs the extra: ``pip install 'leaselab[postgres]'``.
"""

from leaselab.errors import StoreError

try:
    import psycopg as _psycopg  # noqa: F401
except ImportError as error:
    raise StoreError(
        "PostgreSQL needs two more packages: pip install 'leaselab[postgres]', then restart the "
        "kernel. All other lessons work without them."
    ) from error

from leaselab.postgres.server import PostgresServer
from leaselab.postgres.store import PostgresStore

__all__ = ["PostgresServer", "PostgresStore"]
