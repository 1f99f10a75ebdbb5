-- Stores jobs as SCHEDULED or QUEUED. A job id that is there already belongs to the same call, sent
-- again. A run_at that has passed, or none, makes the job ready at once. It expires so long after it
-- is ready, or at its deadline.
INSERT INTO jobmesh.jobs_live (
    job_id, namespace, queue, type, priority, spec, payload, payload_type, labels, traceparent, parent_job_id,
    create_time, state, run_at, queued_at, woken_at, deadline, expire_at, history)
SELECT
    job.job_id, job.namespace, job.queue, job.type, job.priority, job.spec, job.payload, job.payload_type,
    job.labels::jsonb, job.traceparent, job.parent_job_id, t.now,
    CASE WHEN due.at > t.now THEN 'SCHEDULED' ELSE 'QUEUED' END,
    CASE WHEN due.at > t.now THEN due.at END,
    CASE WHEN due.at > t.now THEN NULL ELSE t.now END,
    CASE WHEN due.at > t.now THEN NULL ELSE t.now END,
    job.deadline,
    least(job.deadline, greatest(due.at, t.now) + make_interval(secs => job.expires_after)),
    ARRAY[ROW(1, CASE WHEN due.at > t.now THEN 'SCHEDULED' ELSE 'QUEUED' END, 'UNSPECIFIED', t.now, 0)::jobmesh.state_change]
FROM
    unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::bytea[], $7::bytea[], $8::text[],
           $9::text[], $10::text[], $11::uuid[], $12::timestamptz[], $13::float8[], $14::timestamptz[], $15::float8[])
        AS job (job_id, namespace, queue, type, priority, spec, payload, payload_type,
                labels, traceparent, parent_job_id, run_at, delay, deadline, expires_after),
    LATERAL (SELECT clock_timestamp() AS now) AS t,
    LATERAL (SELECT coalesce(job.run_at, t.now + make_interval(secs => job.delay)) AS at) AS due
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id, state, create_time, run_at
