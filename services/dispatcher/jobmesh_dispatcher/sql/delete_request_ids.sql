-- Forgets some idempotency keys that are old enough and whose jobs are gone. $1 age, $2 limit.
WITH expired AS (
    SELECT namespace, request_id FROM jobmesh.request_ids request
    WHERE create_time < now() - $1::interval
      AND NOT EXISTS (SELECT FROM jobmesh.jobs_live job WHERE job.job_id = request.job_id)
      AND NOT EXISTS (SELECT FROM jobmesh.jobs_history job WHERE job.job_id = request.job_id)
    LIMIT $2
), gone AS (
    DELETE FROM jobmesh.request_ids request USING expired
    WHERE request.namespace = expired.namespace AND request.request_id = expired.request_id
    RETURNING 1
)
SELECT count(*) FROM gone
