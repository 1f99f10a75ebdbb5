-- Jobs by their ids, live or ended, as many as fit into one answer; `found` says how many there
-- are. $1 namespace, $2 whether in full, $3 bytes, $4 job ids.
SELECT * FROM (
    SELECT
        job.*,
        count(*) OVER () AS found,
        row_number() OVER (ORDER BY job_id) AS position,
        sum(bytes) OVER (ORDER BY job_id) AS bytes_so_far
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
        WHERE job_id = ANY ($4::uuid[]) AND namespace IS NOT DISTINCT FROM $1 -- which no index serves
    ) AS job
) AS job
WHERE position = 1 OR bytes_so_far <= $3
