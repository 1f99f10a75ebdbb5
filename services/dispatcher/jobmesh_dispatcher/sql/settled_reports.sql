-- How reports of jobs that are not leased as they say have been settled before: the outcome
-- recorded for that very attempt, or none. $1 job ids, $2 attempts.
SELECT report.job_id, report.attempt, ended.outcome
FROM unnest($1::uuid[], $2::bigint[]) AS report (job_id, attempt)
JOIN (
    SELECT job_id, attempts FROM jobmesh.jobs_live WHERE job_id = ANY ($1::uuid[])
    UNION ALL
    SELECT job_id, attempts FROM jobmesh.jobs_history WHERE job_id = ANY ($1::uuid[])
) AS job USING (job_id)
JOIN LATERAL unnest(job.attempts) AS ended ON ended.attempt = report.attempt
