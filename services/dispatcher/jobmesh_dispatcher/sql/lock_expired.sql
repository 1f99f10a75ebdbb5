-- Locks jobs that wait past their deadline or have expired, the longest overdue first; those that
-- somebody else has are passed over. $1 limit.
SELECT job_id, state FROM jobmesh.jobs_live
WHERE expire_at <= clock_timestamp() AND state IN ('SCHEDULED', 'QUEUED', 'RETRYING')
ORDER BY expire_at LIMIT $1
FOR UPDATE SKIP LOCKED
