-- ack: tidy a delivery whose run is already written. It may be late; the run is not touched.
UPDATE tasks
SET state = 'done', lease_owner = NULL, lease_until = NULL
WHERE id = :task_id
  AND lease_owner = :owner          -- guard: owner
  AND generation = :generation      -- guard: generation
