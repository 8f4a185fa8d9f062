-- renew: prolong a lease that is still live. The base is now, and the end never moves back.
UPDATE tasks
SET lease_until = GREATEST(
      0,
      lease_until,                  -- guard: never_shorter
      :lease + COALESCE(            -- the first of these that is not NULL
        :now,                       -- guard: from_now
        lease_until, 0
      )
    )
WHERE id = :task_id AND run_id = :run_id
  AND lease_owner = :owner          -- guard: owner
  AND generation = :generation      -- guard: generation
  AND state = 'running'             -- guard: running
  AND lease_until > :now            -- guard: expiry
RETURNING lease_until
