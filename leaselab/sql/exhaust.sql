-- exhaust: end a task that was claimed too often, if its run still waits for it.
UPDATE tasks
SET state = 'failed', lease_owner = NULL, lease_until = NULL
WHERE id = :task_id AND run_id = :run_id
  AND lease_owner = :owner                  -- guard: owner
  AND generation = :generation              -- guard: generation
  AND tasks.state = 'running'               -- guard: running
  AND lease_until > :now                    -- guard: expiry
  AND generation > :max_attempts            -- guard: attempt_limit
  AND 'active' = (SELECT runs.state FROM runs WHERE runs.id = :run_id)  -- guard: active_run
