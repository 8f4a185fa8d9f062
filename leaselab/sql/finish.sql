-- finish: write down how the task ended, while the lease of this very generation is live.
UPDATE tasks
SET state = :outcome, lease_owner = NULL, lease_until = NULL
WHERE id = :task_id
  AND generation = :generation      -- guard: generation
  AND state = 'running'             -- guard: running
  AND lease_until > :now            -- guard: expiry
