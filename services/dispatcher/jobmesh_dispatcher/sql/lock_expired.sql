-- Locks jobs that wait past their deadline or have expired, the longest overdue first; those that
-- somebody else has are passed over. $1 limit.
-- statement_timestamp() is the same for all rows, so that an index on the time can end the search.
SELECT job_id, state FROM jobmesh.jobs_live
WHERE expire_at <= statement_timestamp() AND state IN ('SCHEDULED', 'QUEUED', 'RETRYING')
ORDER BY expire_at LIMIT $1
FOR UPDATE SKIP LOCKED
