-- Locks jobs parked for want of a runner, the most urgent first; those that another claim has are
-- passed over. Looks for the kinds of jobs that are parked, one index probe each, and then at a few
-- of each kind and priority, the oldest: however many wait, for whomever else. Leaves out those that
-- are to have a runner for themselves. $1 namespace, $2 queues (NULL: all), $3 types, $4 limit.
WITH RECURSIVE kind AS (
    (
        SELECT queue, type FROM jobmesh.jobs_live
        WHERE namespace = $1 AND hold_reason = 'NO_RUNNER'
        ORDER BY queue, type LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.type
    FROM kind CROSS JOIN LATERAL (
        SELECT job.queue, job.type FROM jobmesh.jobs_live job
        WHERE job.namespace = $1 AND job.hold_reason = 'NO_RUNNER' AND (job.queue, job.type) > (kind.queue, kind.type)
        ORDER BY job.queue, job.type LIMIT 1
    ) AS following
), urgent AS (
    -- More than wanted: others may have locked the first of them.
    SELECT held.job_id
    FROM kind CROSS JOIN generate_series(0, 9) AS level (priority)
    CROSS JOIN LATERAL (
        SELECT job.job_id, job.priority, job.queued_at FROM jobmesh.jobs_live job
        WHERE job.namespace = $1 AND job.hold_reason = 'NO_RUNNER' AND job.queue = kind.queue AND job.type = kind.type
          AND job.priority = level.priority
          AND NOT (job.suspect > 1 AND job.queued_at > clock_timestamp() - interval '60 seconds')
        ORDER BY job.queued_at LIMIT 4 * $4::bigint
    ) AS held
    WHERE ($2::text[] IS NULL OR kind.queue = ANY ($2::text[])) AND kind.type = ANY ($3::text[])
    ORDER BY jobmesh.urgency(held.priority, held.queued_at, statement_timestamp()) DESC, held.priority DESC, held.queued_at
    LIMIT 4 * $4::bigint
)
SELECT job.job_id, job.namespace, job.queue, job.type, job.priority, job.hold_reason, job.state,
    false AS alone,
    coalesce(job.expire_at <= clock_timestamp(), false) AS expired,
    octet_length(job.payload) + coalesce(octet_length(job.checkpoint), 0) AS bytes
FROM jobmesh.jobs_live job JOIN urgent ON urgent.job_id = job.job_id
WHERE job.state = 'QUEUED' AND job.hold_reason IS NOT DISTINCT FROM 'NO_RUNNER' -- which no index serves
ORDER BY jobmesh.urgency(job.priority, job.queued_at, statement_timestamp()) DESC, job.priority DESC, job.queued_at
LIMIT $4
FOR UPDATE OF job SKIP LOCKED
