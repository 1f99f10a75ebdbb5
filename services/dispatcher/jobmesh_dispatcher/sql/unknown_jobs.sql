-- Jobs that these sessions were given some time ago and that their runners do not have: the answer
-- to the claim's commit was lost. $1 session ids, $2 the jobs that the runners have.
SELECT session_id, array_agg(job_id ORDER BY job_id) AS job_ids FROM jobmesh.jobs_live
WHERE session_id = ANY ($1::uuid[]) AND state IN ('RUNNING', 'CANCELLING')
  AND claim_time < clock_timestamp() - interval '5 seconds' AND job_id <> ALL ($2::uuid[])
GROUP BY session_id
