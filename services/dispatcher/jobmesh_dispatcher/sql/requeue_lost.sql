-- RUNNING -> QUEUED: takes jobs back from a session, under their attempts. Jobs are locked already.
-- $1 session id, $2 job ids, $3 attempts, $4 reasons, $5 crashes charged, $6 whether it may have been
-- the job that took the runner down.
UPDATE jobmesh.jobs_live job
SET state = 'QUEUED', reason = lost.reason, revision = job.revision + 1, crashes = job.crashes + lost.crashed,
    suspect = CASE WHEN lost.suspected THEN least(job.suspect + 1, 2) ELSE job.suspect END,
    suspect_seconds = CASE WHEN lost.suspected
                           THEN greatest(job.suspect_seconds, 0, extract(epoch FROM t.now - coalesce(job.start_time, t.now))::float8)
                           ELSE job.suspect_seconds END,
    expire_at = CASE WHEN job.start_time IS NOT NULL THEN job.deadline ELSE job.expire_at END,
    session_id = NULL, slot = false, queued_at = t.now, woken_at = t.now,
    history = jobmesh.remember(job.history,
        ROW(job.revision + 1, 'QUEUED', lost.reason, jobmesh.no_earlier(t.now, job.history, job.start_time),
            job.attempt)::jobmesh.state_change),
    attempts = jobmesh.remember(job.attempts,
        ROW(job.attempt, job.runner_id, job.start_time, jobmesh.no_earlier(t.now, job.history, job.start_time), 'LOST', '', '',
            true)::jobmesh.attempt)
FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::smallint[], $6::boolean[])
        AS lost (job_id, attempt, reason, crashed, suspected),
     LATERAL (SELECT clock_timestamp() AS now) AS t
WHERE job.job_id = lost.job_id AND job.attempt = lost.attempt AND job.session_id = $1 AND job.state = 'RUNNING'
RETURNING job.job_id, job.attempt, job.state, job.reason, job.revision, job.namespace, job.queue, job.type, job.priority,
    job.error_type, (job.attempts[cardinality(job.attempts)]).end_time AS end_time
