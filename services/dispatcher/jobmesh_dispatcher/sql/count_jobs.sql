-- How many jobs all queues hold by state, since when the oldest has been QUEUED, and for how many
-- seconds: one pass over the live jobs. $1 namespace (NULL: all).
SELECT namespace, queue, state, hold_reason, count(*) AS jobs,
    min(queued_at) FILTER (WHERE state = 'QUEUED') AS oldest,
    extract(epoch FROM clock_timestamp() - min(queued_at) FILTER (WHERE state = 'QUEUED'))::float8 AS oldest_seconds
FROM jobmesh.jobs_live
WHERE $1::text IS NULL OR namespace = $1
GROUP BY namespace, queue, state, hold_reason
