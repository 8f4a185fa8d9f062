-- enqueue: write a task down. Accepting it is not doing it.
INSERT INTO tasks (run_id, available_at, created_at)
VALUES (:run_id, :available_at, :now)
RETURNING id
