CLAIM = """
UPDATE tasks
SET state = 'running', lease_owner = :owner, lease_until = :now + :lease, generation = generation + 1
WHERE id = (
  SELECT id FROM tasks
  WHERE state IN ('pending', 'running') AND available_at <= :now
    AND COALESCE(lease_until, :now) <= :now
    AND run_id NOT IN (SELECT run_id FROM tasks WHERE lease_until > :now)
  ORDER BY available_at, created_at, id
  LIMIT 1
)
RETURNING id, run_id, lease_owner, generation, lease_until
"""
RENEW = """
UPDATE tasks
SET lease_until = IIF(lease_until > :now + :lease, lease_until, :now + :lease)
WHERE id = :task_id AND generation = :generation AND lease_until > :now
RETURNING lease_until
"""
FINISH = """
UPDATE tasks
SET state = :outcome, lease_owner = NULL, lease_until = NULL
WHERE id = :task_id AND generation = :generation AND lease_until > :now
"""
COMMIT_RUN = """
UPDATE runs
SET value = :value, revision = revision + 1
WHERE id = :run_id AND revision = :revision
  AND :task_id IN (SELECT id FROM tasks WHERE generation = :generation AND lease_until > :now)
"""


def answer():
    return {"claim": CLAIM, "renew": RENEW, "finish": FINISH, "commit_run": COMMIT_RUN}
