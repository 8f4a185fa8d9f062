-- exhaust, same transaction, only after the task was ended: the run says why it failed.
UPDATE runs
SET state = 'failed', failure = 'task_attempts_exhausted'
WHERE id = :run_id
