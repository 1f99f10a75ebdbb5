-- Forgets the idempotency keys of the jobs of a partition that ended in a while. A key is written with its job, so that the block
-- ranges of the index on its time leave out most of the table. $1 state, $2 partition, $3 begin, $4 end.
WITH ended AS MATERIALIZED (
    SELECT job_id, create_time FROM jobmesh.jobs_history
    WHERE state = $1 AND end_time >= $3 AND end_time < $4 AND tableoid = format('jobmesh.%I', $2::text)::regclass
), gone AS (
    DELETE FROM jobmesh.request_ids request USING ended
    WHERE request.job_id = ended.job_id
      AND request.create_time >= (SELECT min(create_time) - interval '1 hour' FROM ended)
      AND request.create_time < (SELECT max(create_time) + interval '1 hour' FROM ended)
      AND request.create_time < now() - interval '24 hours'
    RETURNING 1
)
SELECT count(*) FROM gone
