-- enqueue, same transaction: the run comes into being with its first task.
INSERT INTO runs (id) VALUES (:run_id)
ON CONFLICT (id) DO NOTHING
