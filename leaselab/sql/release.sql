-- release: give the task back, to be claimed from available_at on. The generation stays.
UPDATE tasks
SET state = 'pending', lease_owner = NULL, lease_until = NULL, available_at = :available_at
WHERE id = :task_id
  AND lease_owner = :owner          -- guard: owner
  AND generation = :generation      -- guard: generation
