-- Stores jobs as SCHEDULED or QUEUED, with their calls, their request ids and the wake-ups that they
-- are owed, in one round trip. Left out is what was stored before: the jobs of a call that is sent
-- again, and of a request id that is taken. A run_at that has passed, or none, makes a job ready at
-- once. It expires so long after it is ready, or at its deadline.
-- One that has a seat is claimed along with it, QUEUED -> RUNNING, if the session is still attached and the
-- queue neither limited nor paused; both are held until the commit, as by every claim, but nothing is waited
-- for: whatever is being changed, the job is stored only. One that is claimed is owed no wake-up.
-- IS TRUE keeps the server from making a join of IN, whose every way but the slow one is switched off.
-- It takes the columns of `Submission.columns`; sessions and runners of the jobs' seats, null without; all these
-- sessions with their attachments; tokens of the queues; and of wake-ups the subjects, the bodies, and the one
-- job with a seat that each is for, null for others.
WITH job AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::bytea[], $7::bytea[], $8::text[],
        $9::text[], $10::text[], $11::uuid[], $12::timestamptz[], $13::float8[], $14::timestamptz[], $15::float8[],
        $16::uuid[], $17::text[], $18::bytea[], $19::text[], $20::uuid[], $21::text[])
        AS job (job_id, namespace, queue, type, priority, spec, payload, payload_type, labels, traceparent,
                parent_job_id, run_at, delay, deadline, expires_after, operation_id, request_id, digest,
                schedule_id, session_id, runner_id)
), attached AS MATERIALIZED (
    SELECT session.session_id FROM jobmesh.sessions session
    JOIN unnest($22::uuid[], $23::uuid[]) AS mine (session_id, attachment)
        ON session.session_id = mine.session_id AND session.attachment = mine.attachment
    WHERE session.end_time IS NULL
    ORDER BY session.session_id
    FOR KEY SHARE OF session SKIP LOCKED
), open AS MATERIALIZED (
    SELECT namespace, name FROM jobmesh.queues
    WHERE token = ANY ($24::text[]) AND max_running IS NULL AND NOT dispatch_paused
    ORDER BY namespace, name
    FOR KEY SHARE SKIP LOCKED
), begun AS MATERIALIZED (
    SELECT job_id FROM job
    WHERE session_id IS NOT NULL AND (session_id IN (SELECT session_id FROM attached)) IS TRUE
      AND ((namespace, queue) IN (SELECT namespace, name FROM open)) IS TRUE
), fresh AS (
    INSERT INTO jobmesh.operations (operation_id)
    SELECT DISTINCT operation_id FROM job ORDER BY operation_id
    ON CONFLICT DO NOTHING
    RETURNING operation_id
), taken AS (
    INSERT INTO jobmesh.request_ids (namespace, request_id, job_id, digest)
    SELECT namespace, request_id, job_id, digest FROM job
    WHERE request_id <> '' AND (operation_id IN (SELECT operation_id FROM fresh)) IS TRUE
    ORDER BY namespace, request_id, job_id
    ON CONFLICT (namespace, request_id) DO NOTHING
    RETURNING job_id
), stored AS (
    INSERT INTO jobmesh.jobs_live (
        job_id, namespace, queue, type, priority, spec, payload, payload_type, labels, traceparent, parent_job_id,
        schedule_id, create_time, state, run_at, queued_at, woken_at, deadline, expire_at,
        revision, attempt, session_id, runner_id, claim_time, history)
    SELECT
        job.job_id, job.namespace, job.queue, job.type, job.priority, job.spec, job.payload, job.payload_type,
        job.labels::jsonb, job.traceparent, job.parent_job_id, job.schedule_id, t.now,
        CASE WHEN due.at > t.now THEN 'SCHEDULED' WHEN begins.now THEN 'RUNNING' ELSE 'QUEUED' END,
        CASE WHEN due.at > t.now THEN due.at END,
        CASE WHEN due.at > t.now THEN NULL ELSE t.now END,
        CASE WHEN due.at > t.now THEN NULL ELSE t.now END,
        job.deadline,
        least(job.deadline, greatest(due.at, t.now) + make_interval(secs => job.expires_after)),
        CASE WHEN begins.now THEN 2 ELSE 1 END, CASE WHEN begins.now THEN 1 ELSE 0 END,
        CASE WHEN begins.now THEN job.session_id END, CASE WHEN begins.now THEN job.runner_id ELSE '' END,
        CASE WHEN begins.now THEN t.now END,
        ARRAY[ROW(1, CASE WHEN due.at > t.now THEN 'SCHEDULED' ELSE 'QUEUED' END, 'UNSPECIFIED', t.now,
                  0)::jobmesh.state_change]
            || CASE WHEN begins.now THEN ARRAY[ROW(2, 'RUNNING', 'UNSPECIFIED', t.now, 1)::jobmesh.state_change] END
    FROM job,
        LATERAL (SELECT (job.job_id IN (SELECT job_id FROM begun)) IS TRUE AS now) AS begins,
        LATERAL (SELECT clock_timestamp() AS now) AS t,
        LATERAL (SELECT coalesce(job.run_at, t.now + make_interval(secs => job.delay)) AS at) AS due
    WHERE (job.operation_id IN (SELECT operation_id FROM fresh)) IS TRUE
      AND (job.request_id = '' OR job.job_id IN (SELECT job_id FROM taken))
    RETURNING job_id, state, create_time, run_at, session_id, claim_time
), owed AS (
    INSERT INTO jobmesh.outbox (subject, body)
    SELECT subject, body FROM unnest($25::text[], $26::bytea[], $27::uuid[]) AS message (subject, body, job_id)
    WHERE job_id IS NULL OR (job_id IN (SELECT job_id FROM begun)) IS NOT TRUE
    RETURNING id, subject, body
)
SELECT job_id, state, create_time, run_at, session_id, claim_time,
    NULL::bigint AS id, NULL::text AS subject, NULL::bytea AS body
FROM stored
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, id, subject, body FROM owed
