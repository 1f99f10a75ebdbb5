-- How many jobs some queues hold by state, and since when the oldest has been QUEUED. Each part has
-- an index of its own, so that a small queue is counted cheaply beside a large one. $1 namespace,
-- $2 queues.
SELECT queue, state, hold_reason, count(*) AS jobs, min(queued_at) AS oldest
FROM (
    SELECT queue, state, hold_reason, queued_at FROM jobmesh.jobs_live
    WHERE namespace = $1 AND queue = ANY ($2::text[]) AND state = 'QUEUED' AND hold_reason IS NULL
    UNION ALL
    SELECT queue, state, hold_reason, queued_at FROM jobmesh.jobs_live
    WHERE namespace = $1 AND queue = ANY ($2::text[]) AND hold_reason IS NOT NULL
    UNION ALL
    SELECT queue, state, NULL, NULL FROM jobmesh.jobs_live
    WHERE namespace = $1 AND queue = ANY ($2::text[]) AND session_id IS NOT NULL
    UNION ALL
    SELECT queue, state, NULL, NULL FROM jobmesh.jobs_live
    WHERE namespace = $1 AND queue = ANY ($2::text[]) AND run_at IS NOT NULL
) AS job
GROUP BY queue, state, hold_reason
