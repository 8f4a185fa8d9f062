-- schema: runs are what the user cares about, tasks are deliveries of work on a run.
CREATE TABLE runs (
  id       TEXT PRIMARY KEY,
  state    TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'done', 'failed')),
  revision INTEGER NOT NULL DEFAULT 0 CHECK (revision >= 0),
  value    TEXT,
  failure  TEXT,
  CHECK ((state = 'failed') = (failure IS NOT NULL))
) STRICT;

CREATE TABLE tasks (
  id           INTEGER PRIMARY KEY,
  run_id       TEXT NOT NULL REFERENCES runs (id),
  state        TEXT NOT NULL DEFAULT 'pending'
               CHECK (state IN ('pending', 'running')  -- for longer lists SQLite opens a table
                   OR state IN ('done', 'uncertain') OR state = 'failed'),
  generation   INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
  lease_owner  TEXT,
  lease_until  INTEGER,
  available_at INTEGER NOT NULL CHECK (available_at >= 0),
  created_at   INTEGER NOT NULL CHECK (created_at >= 0),
  CHECK ((state = 'running') = (lease_until IS NOT NULL)),
  CHECK ((state = 'running') = (lease_owner IS NOT NULL))
) STRICT;

-- The order of claims, without the tasks that have ended: a claim reads its first entries only. It passes
-- over those that are held, and those that wait for a running task of their own run.
CREATE INDEX claimable ON tasks (available_at, created_at, id) WHERE state IN ('pending', 'running');

-- Is another task of this run running? There are never more entries than claims under way.
CREATE INDEX active ON tasks (run_id, lease_until) WHERE state = 'running';
