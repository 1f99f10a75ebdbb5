-- A page of jobs, live or ended, the newest first, as many as fit into one answer; `found` counts
-- up to $4. $1 namespace, $2 whether in full, $3 bytes, $4 limit, $5 and $6 create time and id of
-- the last job before the page. The filter, NULL for any: $7 queues, $8 types, $9 states, $10
-- labels, $11 runner, $12 schedule, $13 parent, $14 and $15 create time from and to, $16 and $17
-- end time from and to, $18 error type; $19 and $20 true if the states are only those with a lease,
-- or those that wait for their time: both have small indexes.
SELECT * FROM (
    SELECT
        job.*,
        count(*) OVER () AS found,
        row_number() OVER (ORDER BY create_time DESC, job_id DESC) AS position,
        sum(bytes) OVER (ORDER BY create_time DESC, job_id DESC) AS bytes_so_far
    FROM (
        SELECT
            job_id, namespace, state, reason,
            -- Jobs of a paused queue are not even looked at, and so not marked, or still for what held them before.
            CASE WHEN state = 'QUEUED'
                  AND (namespace, queue) IN (SELECT q.namespace, q.name FROM jobmesh.queues q WHERE q.dispatch_paused)
                 THEN 'QUEUE_PAUSED' ELSE hold_reason END AS hold_reason,
            revision, attempt, failures, crashes, spec, run_at, runner_id,
            start_time, create_time, cancel_reason, progress, error, schedule_id, end_time,
            CASE WHEN $2 THEN payload END AS payload, CASE WHEN $2 THEN payload_type END AS payload_type,
            CASE WHEN $2 THEN checkpoint END AS checkpoint, CASE WHEN $2 THEN checkpoint_type END AS checkpoint_type,
            CASE WHEN $2 THEN result END AS result, CASE WHEN $2 THEN result_type END AS result_type,
            CASE WHEN $2 THEN history END AS history,
            basic_bytes + CASE WHEN $2 THEN further_bytes ELSE 0 END AS bytes
        FROM jobmesh.jobs
        WHERE namespace = $1
          AND ($5::timestamptz IS NULL OR (create_time, job_id) < ($5::timestamptz, $6::uuid))
          AND ($7::text[] IS NULL OR queue = ANY ($7::text[]))
          AND ($8::text[] IS NULL OR type = ANY ($8::text[]))
          AND ($9::text[] IS NULL OR state = ANY ($9::text[]))
          AND ($10::jsonb IS NULL OR labels @> $10::jsonb)
          AND ($11::text IS NULL OR runner_id = $11)
          AND ($12::text IS NULL OR schedule_id = $12)
          AND ($13::uuid IS NULL OR parent_job_id = $13)
          AND ($14::timestamptz IS NULL OR create_time >= $14)
          AND ($15::timestamptz IS NULL OR create_time < $15)
          AND ($16::timestamptz IS NULL OR end_time >= $16)
          AND ($17::timestamptz IS NULL OR end_time < $17)
          AND ($18::text IS NULL OR error_type = $18)
          AND (NOT $19::boolean OR session_id IS NOT NULL)
          AND (NOT $20::boolean OR run_at IS NOT NULL)
        ORDER BY create_time DESC, job_id DESC
        LIMIT $4
    ) AS job
) AS job
WHERE position = 1 OR bytes_so_far <= $3
ORDER BY create_time DESC, job_id DESC
