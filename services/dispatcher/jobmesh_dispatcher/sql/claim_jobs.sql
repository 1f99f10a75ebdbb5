-- QUEUED -> RUNNING: gives locked jobs to sessions, under a new attempt.
-- $1 job ids, $2 session ids, $3 runner ids, $4 whether the job counts in its queue's slots.
UPDATE jobmesh.jobs_live job
SET state = 'RUNNING', reason = 'UNSPECIFIED', hold_reason = NULL,
    revision = job.revision + 1, attempt = job.attempt + 1,
    session_id = claim.session_id, runner_id = claim.runner_id, slot = claim.slot,
    claim_time = jobmesh.no_earlier(t.now, job.history, job.start_time), start_time = NULL, progress = NULL,
    history = jobmesh.remember(job.history,
        ROW(job.revision + 1, 'RUNNING', 'UNSPECIFIED', jobmesh.no_earlier(t.now, job.history, job.start_time),
            job.attempt + 1)::jobmesh.state_change)
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::boolean[]) AS claim (job_id, session_id, runner_id, slot),
     LATERAL (SELECT clock_timestamp() AS now) AS t
WHERE job.job_id = claim.job_id AND job.state = 'QUEUED'
RETURNING job.job_id, job.state, job.reason, job.namespace, job.queue, job.type, job.priority, job.attempt, job.revision, job.failures,
    job.crashes, job.spec, job.payload, job.payload_type, job.checkpoint, job.checkpoint_type, job.traceparent,
    job.create_time, job.claim_time, job.session_id, job.slot, job.log_lines, job.log_bytes, job.suspect, job.steps,
    extract(epoch FROM job.deadline - t.now)::float8 AS seconds_left
