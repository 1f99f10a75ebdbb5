-- Which of these jobs are stored. $1 job ids.
SELECT job_id FROM jobmesh.jobs_live WHERE job_id = ANY ($1::uuid[])
UNION ALL
SELECT job_id FROM jobmesh.jobs_history WHERE job_id = ANY ($1::uuid[])
