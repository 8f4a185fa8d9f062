-- renew: prolong a lease that is still live. The base is now, and the end never moves back.
UPDATE tasks
SET lease_until = MAX(
      :now + :lease,
      lease_until,                  -- guard: never_shorter
      :now
    )
WHERE id = :task_id AND run_id = :run_id
  AND lease_owner = :owner          -- guard: owner
  AND generation = :generation      -- guard: generation
  AND state = 'running'             -- guard: running
  AND lease_until > :now            -- guard: expiry
RETURNING lease_until
