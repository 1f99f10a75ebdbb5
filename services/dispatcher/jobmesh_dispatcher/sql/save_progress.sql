-- RUNNING, CANCELLING: keeps the latest progress of each job, under its attempt and session.
-- $1 job ids, $2 attempts, $3 session ids, $4 progress.
-- No index serves IS NOT DISTINCT FROM: each job is found by its id, never among all that run.
UPDATE jobmesh.jobs_live job SET progress = report.progress
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bytea[]) AS report (job_id, attempt, session_id, progress)
WHERE job.job_id = report.job_id AND job.attempt = report.attempt AND job.session_id IS NOT DISTINCT FROM report.session_id
  AND job.state IN ('RUNNING', 'CANCELLING')
