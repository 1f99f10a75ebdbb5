-- Puts the count of a queue's running jobs right; this transaction has locked it, in an earlier
-- statement. $1 namespace, $2 queue.
UPDATE jobmesh.queue_slots slots
SET running = (
    SELECT count(*) FROM jobmesh.jobs_live job
    WHERE job.namespace = $1 AND job.queue = $2 AND job.session_id IS NOT NULL
      AND job.state IN ('RUNNING', 'CANCELLING') AND job.slot
)
WHERE slots.namespace = $1 AND slots.queue = $2
RETURNING slots.running
