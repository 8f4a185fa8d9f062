-- commit_run: write the run's value; revision and lease are judged by the statement that writes.
-- The task's row is locked until the commit, so that no takeover comes between.
UPDATE runs
SET value = :value, revision = revision + 1
WHERE id = :run_id
  AND revision = :revision              -- guard: revision
  AND EXISTS (
    SELECT 1 FROM tasks
    WHERE tasks.id = :task_id AND tasks.run_id = :run_id
      AND lease_owner = :owner          -- guard: owner
      AND generation = :generation      -- guard: generation
      AND tasks.state = 'running'       -- guard: running
      AND lease_until > :now            -- guard: expiry
    FOR SHARE                           -- guard: row_lock
  )
