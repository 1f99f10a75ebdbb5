-- Stores jobs as SCHEDULED or QUEUED, with their calls, their request ids and the wake-ups that they
-- are owed, in one round trip. Left out is what was stored before: the jobs of a call that is sent
-- again, and of a request id that is taken. A run_at that has passed, or none, makes a job ready at
-- once. It expires so long after it is ready, or at its deadline.
-- IS TRUE keeps the server from making a join of IN, whose every way but the slow one is switched off.
-- It takes the columns of `Submission.columns`, then subjects and bodies of wake-ups.
WITH job AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::bytea[], $7::bytea[], $8::text[],
        $9::text[], $10::text[], $11::uuid[], $12::timestamptz[], $13::float8[], $14::timestamptz[], $15::float8[],
        $16::uuid[], $17::text[], $18::bytea[], $19::text[])
        AS job (job_id, namespace, queue, type, priority, spec, payload, payload_type, labels, traceparent,
                parent_job_id, run_at, delay, deadline, expires_after, operation_id, request_id, digest,
                schedule_id)
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
        schedule_id, create_time, state, run_at, queued_at, woken_at, deadline, expire_at, history)
    SELECT
        job.job_id, job.namespace, job.queue, job.type, job.priority, job.spec, job.payload, job.payload_type,
        job.labels::jsonb, job.traceparent, job.parent_job_id, job.schedule_id, t.now,
        CASE WHEN due.at > t.now THEN 'SCHEDULED' ELSE 'QUEUED' END,
        CASE WHEN due.at > t.now THEN due.at END,
        CASE WHEN due.at > t.now THEN NULL ELSE t.now END,
        CASE WHEN due.at > t.now THEN NULL ELSE t.now END,
        job.deadline,
        least(job.deadline, greatest(due.at, t.now) + make_interval(secs => job.expires_after)),
        ARRAY[ROW(1, CASE WHEN due.at > t.now THEN 'SCHEDULED' ELSE 'QUEUED' END, 'UNSPECIFIED', t.now,
                  0)::jobmesh.state_change]
    FROM job,
        LATERAL (SELECT clock_timestamp() AS now) AS t,
        LATERAL (SELECT coalesce(job.run_at, t.now + make_interval(secs => job.delay)) AS at) AS due
    WHERE (job.operation_id IN (SELECT operation_id FROM fresh)) IS TRUE
      AND (job.request_id = '' OR job.job_id IN (SELECT job_id FROM taken))
    RETURNING job_id, state, create_time, run_at
), owed AS (
    INSERT INTO jobmesh.outbox (subject, body)
    SELECT subject, body FROM unnest($20::text[], $21::bytea[]) AS message (subject, body)
    RETURNING id, subject, body
)
SELECT job_id, state, create_time, run_at, NULL::bigint AS id, NULL::text AS subject, NULL::bytea AS body
FROM stored
UNION ALL
SELECT NULL, NULL, NULL, NULL, id, subject, body FROM owed
