-- RUNNING, CANCELLING: lets jobs of a queue count that were claimed while it had no limit. $1
-- namespace, $2 queue.
WITH uncounted AS (
    SELECT job_id FROM jobmesh.jobs_live
    WHERE namespace = $1 AND queue = $2 AND session_id IS NOT NULL AND state IN ('RUNNING', 'CANCELLING') AND NOT slot
    ORDER BY job_id
    FOR UPDATE
)
UPDATE jobmesh.jobs_live job SET slot = true
FROM uncounted WHERE job.job_id = uncounted.job_id AND job.state IN ('RUNNING', 'CANCELLING')
