-- QUEUED -> QUEUED: holds locked jobs back; whatever ends the hold wakes them. $1 job ids, $2 hold
-- reasons.
UPDATE jobmesh.jobs_live job SET hold_reason = hold.reason
FROM unnest($1::uuid[], $2::text[]) AS hold (job_id, reason)
WHERE job.job_id = hold.job_id AND job.state = 'QUEUED'
RETURNING job.type
