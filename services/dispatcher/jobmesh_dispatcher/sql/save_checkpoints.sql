-- RUNNING, CANCELLING: keeps checkpoints, under their attempt and session. $1 job ids, $2 attempts,
-- $3 session ids, $4 checkpoints, $5 types.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
UPDATE jobmesh.jobs_live job SET checkpoint = report.checkpoint, checkpoint_type = report.checkpoint_type
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bytea[], $5::text[])
    AS report (job_id, attempt, session_id, checkpoint, checkpoint_type)
WHERE job.job_id = report.job_id AND job.attempt = report.attempt AND job.session_id IS NOT DISTINCT FROM report.session_id
  AND job.state IN ('RUNNING', 'CANCELLING')
RETURNING job.job_id, job.attempt
