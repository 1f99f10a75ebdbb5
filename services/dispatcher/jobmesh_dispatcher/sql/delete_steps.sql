-- Deletes the steps of some of the jobs of a partition that ended in a while, in the order of their ids.
-- $1 state, $2 partition, $3 begin, $4 end, $5 id of the last job before these, $6 limit.
WITH ended AS (
    SELECT job_id FROM jobmesh.jobs_history
    WHERE state = $1 AND end_time >= $3 AND end_time < $4 AND tableoid = format('jobmesh.%I', $2::text)::regclass
      AND steps > 0 AND job_id > $5
    ORDER BY job_id LIMIT $6
), gone AS (
    DELETE FROM jobmesh.job_steps USING ended WHERE job_steps.job_id = ended.job_id
    RETURNING job_steps.job_id
)
SELECT (SELECT job_id FROM ended ORDER BY job_id DESC LIMIT 1) AS last_job_id, (SELECT count(*) FROM gone) AS steps
