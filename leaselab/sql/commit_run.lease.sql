-- commit_run, same transaction, only after a refusal: was it the lease? Otherwise the revision.
SELECT 1 FROM tasks
WHERE tasks.id = :task_id AND tasks.run_id = :run_id
  AND lease_owner = :owner          -- guard: owner
  AND generation = :generation      -- guard: generation
  AND tasks.state = 'running'       -- guard: running
  AND lease_until > :now            -- guard: expiry
