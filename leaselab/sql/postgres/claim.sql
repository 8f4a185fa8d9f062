-- claim: choose the first task that may run, name its owner and count the claim, in one statement.
-- Rows that another claim has locked are passed over; the index one_running has the last word.
UPDATE tasks
SET state = 'running',
    lease_owner = :owner,
    lease_until = :now + :lease,
    generation = generation + 1
WHERE id = (
  SELECT candidate.id FROM tasks AS candidate
  WHERE TRUE
    AND candidate.state IN ('pending', 'running')    -- guard: final
    AND candidate.available_at <= :now               -- guard: available
    AND (candidate.lease_until IS NULL               -- guard: expiry
      OR candidate.lease_until <= :now               -- guard: expiry, takeover
    )                                                -- guard: expiry
    AND NOT EXISTS (                                 -- guard: one_per_run
      SELECT 1 FROM tasks AS active                  -- guard: one_per_run
      WHERE active.run_id = candidate.run_id         -- guard: one_per_run
        AND active.id <> candidate.id                -- guard: one_per_run
        AND active.state = 'running'                 -- guard: one_per_run
    )                                                -- guard: one_per_run
  ORDER BY candidate.available_at, candidate.created_at, candidate.id
  LIMIT 1
  FOR UPDATE SKIP LOCKED                             -- guard: row_lock
)
RETURNING id, run_id, lease_owner, generation, lease_until
