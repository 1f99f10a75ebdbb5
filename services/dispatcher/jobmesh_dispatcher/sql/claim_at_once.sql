-- QUEUED -> RUNNING: the whole claim of jobs that nothing stands in the way of. Left out, for a claim
-- that looks closer: parked, expired and suspected jobs, those of queues that are paused or limited, and
-- those that such a runner does not run. Sessions and queues are held before jobs are, as by every claim.
-- IS TRUE and IS NOT DISTINCT FROM leave the server no index but that of ids: planned on a small table,
-- it took that of ready jobs, which a later backlog makes long.
-- $1 job ids, $2 session ids, $3 runner ids, each job's; $4 and $5 all sessions with their attachments;
-- $6 tokens of queues; $7 namespace, $8 types and $9 queues of the runners, null for any; $10 bytes of
-- payloads and checkpoints after which no more is taken.
WITH attached AS MATERIALIZED (
    SELECT session.session_id FROM jobmesh.sessions session
    JOIN unnest($4::uuid[], $5::uuid[]) AS mine (session_id, attachment)
        ON session.session_id = mine.session_id AND session.attachment = mine.attachment
    WHERE session.end_time IS NULL
    ORDER BY session.session_id
    FOR KEY SHARE OF session
), open AS MATERIALIZED (
    SELECT namespace, name FROM jobmesh.queues
    WHERE token = ANY ($6::text[]) AND namespace = $7 AND max_running IS NULL AND NOT dispatch_paused
      AND ($9::text[] IS NULL OR name = ANY ($9::text[]))
    ORDER BY name
    FOR KEY SHARE
), locked AS MATERIALIZED (
    SELECT job.job_id, wanted.session_id, wanted.runner_id, wanted.number,
        octet_length(job.payload) + coalesce(octet_length(job.checkpoint), 0) AS bytes
    FROM unnest($1::uuid[], $2::uuid[], $3::text[]) WITH ORDINALITY AS wanted (job_id, session_id, runner_id, number)
    JOIN attached ON attached.session_id = wanted.session_id
    JOIN jobmesh.jobs_live job ON job.job_id = wanted.job_id
    JOIN open ON (open.namespace, open.name) IS NOT DISTINCT FROM (job.namespace, job.queue)
    WHERE job.state = 'QUEUED' AND (job.hold_reason IS NULL) IS TRUE AND job.suspect <= 1
      AND job.type = ANY ($8::text[]) AND coalesce(job.expire_at > clock_timestamp(), true)
    ORDER BY job.job_id
    FOR UPDATE OF job
), claim AS (
    SELECT job_id, session_id, runner_id,
        coalesce(sum(bytes) OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
    FROM locked
)
UPDATE jobmesh.jobs_live job
SET state = 'RUNNING', reason = 'UNSPECIFIED', hold_reason = NULL,
    revision = job.revision + 1, attempt = job.attempt + 1,
    session_id = claim.session_id, runner_id = claim.runner_id, slot = false,
    claim_time = jobmesh.no_earlier(t.now, job.history, job.start_time), start_time = NULL, progress = NULL,
    history = jobmesh.remember(job.history,
        ROW(job.revision + 1, 'RUNNING', 'UNSPECIFIED', jobmesh.no_earlier(t.now, job.history, job.start_time),
            job.attempt + 1)::jobmesh.state_change)
FROM claim, LATERAL (SELECT clock_timestamp() AS now) AS t
WHERE job.job_id = claim.job_id AND job.state = 'QUEUED' AND claim.bytes_before < $10
RETURNING job.job_id, job.state, job.reason, job.namespace, job.queue, job.type, job.priority, job.attempt, job.revision, job.failures,
    job.crashes, job.spec, job.payload, job.payload_type, job.checkpoint, job.checkpoint_type, job.traceparent,
    job.create_time, job.claim_time, job.session_id, job.slot, job.log_lines, job.log_bytes, job.suspect, job.steps,
    extract(epoch FROM job.deadline - t.now)::float8 AS seconds_left
