-- Locks the most urgent of a queue's parked jobs; those that another transaction has are passed over. Looks at
-- a few of each priority, the oldest, one index probe each: more than wanted, as others may have locked the
-- first of them. $1 namespace, $2 queue, $3 hold reason, $4 limit.
WITH urgent AS (
    SELECT held.job_id
    FROM generate_series(0, 9) AS level (priority)
    CROSS JOIN LATERAL (
        SELECT job_id, priority, queued_at FROM jobmesh.jobs_live
        WHERE namespace = $1 AND queue = $2 AND hold_reason = $3::text AND priority = level.priority
        ORDER BY queued_at LIMIT $4::bigint + 8
    ) AS held
    ORDER BY jobmesh.urgency(held.priority, held.queued_at, statement_timestamp()) DESC, held.priority DESC, held.queued_at
    LIMIT $4::bigint + 8
)
SELECT job.job_id, job.namespace, job.queue, job.type, job.priority, job.hold_reason, job.state,
    suspect > 1 AND queued_at > clock_timestamp() - interval '60 seconds' AS alone,
    coalesce(job.expire_at <= clock_timestamp(), false) AS expired,
    octet_length(job.payload) + coalesce(octet_length(job.checkpoint), 0) AS bytes
FROM jobmesh.jobs_live job JOIN urgent ON urgent.job_id = job.job_id
WHERE job.state = 'QUEUED' AND job.hold_reason IS NOT DISTINCT FROM $3::text -- which no index serves
ORDER BY jobmesh.urgency(job.priority, job.queued_at, statement_timestamp()) DESC, job.priority DESC, job.queued_at
LIMIT $4
FOR UPDATE OF job SKIP LOCKED
