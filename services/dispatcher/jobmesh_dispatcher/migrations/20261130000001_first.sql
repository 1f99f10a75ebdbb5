-- migrate:up

CREATE SCHEMA jobmesh;

-- One committed change of a job's state; kept with the job.
CREATE TYPE jobmesh.state_change AS (
    revision bigint,
    state    text,
    reason   text,
    "time"   timestamptz,
    attempt  bigint
);

-- One attempt that ended; kept with the job.
CREATE TYPE jobmesh.attempt AS (
    attempt       bigint,
    runner_id     text,
    start_time    timestamptz,
    end_time      timestamptz,
    outcome       text,
    error_type    text,
    error_message text,
    retryable     boolean
);

-- What is kept of a job's past is bounded: a job that snoozes for years must not grow without end.
CREATE FUNCTION jobmesh.remember(past jobmesh.state_change[], change jobmesh.state_change)
RETURNS jobmesh.state_change[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN cardinality(past) < 256 THEN past || change
                ELSE past[cardinality(past) - 254:] || change END
$$;

CREATE FUNCTION jobmesh.remember(past jobmesh.attempt[], ended jobmesh.attempt)
RETURNS jobmesh.attempt[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN cardinality(past) < 100 THEN past || ended
                ELSE past[cardinality(past) - 98:] || ended END
$$;

-- A time, but never before the end of a job's last attempt, so that attempts do not overlap even if the server's clock is set back.
CREATE FUNCTION jobmesh.no_earlier(now timestamptz, past jobmesh.attempt[])
RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(now, (past[cardinality(past)]).end_time)
$$;

-- When a handler began whose start was not written down before its end: so many seconds earlier, but not before its claim.
CREATE FUNCTION jobmesh.began(started timestamptz, claimed timestamptz, ended timestamptz, run_seconds float8)
RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN started IS NOT NULL OR run_seconds <= 0 THEN started
                ELSE least(ended, greatest(claimed, ended - make_interval(secs => run_seconds))) END
$$;

-- Jobs that are not terminal. States and their transitions: src/jobmesh/states.py.
CREATE TABLE jobmesh.jobs_live (
    job_id          uuid        NOT NULL,
    namespace       text        NOT NULL,
    queue           text        NOT NULL,
    type            text        NOT NULL,
    priority        smallint    NOT NULL CHECK (priority BETWEEN 0 AND 9),
    state           text        NOT NULL,
    reason          text        NOT NULL DEFAULT 'UNSPECIFIED',
    hold_reason     text,                               -- NOT NULL: parked, and no wake-up is under way
    revision        bigint      NOT NULL DEFAULT 1,
    attempt         bigint      NOT NULL DEFAULT 0,     -- the fencing token
    failures        bigint      NOT NULL DEFAULT 0,
    crashes         bigint      NOT NULL DEFAULT 0,
    spec            bytea       NOT NULL,               -- a JobSpec without its payload
    payload         bytea       NOT NULL,
    payload_type    text        NOT NULL,
    labels          jsonb       NOT NULL DEFAULT '{}',
    run_at          timestamptz,                        -- waits until then
    queued_at       timestamptz,                        -- when it became QUEUED
    woken_at        timestamptz,                        -- when its last wake-up was written
    session_id      uuid,                               -- the lease
    runner_id       text        NOT NULL DEFAULT '',
    slot            boolean     NOT NULL DEFAULT false, -- counted in queue_slots.running
    claim_time      timestamptz,
    start_time      timestamptz,
    create_time     timestamptz NOT NULL,
    cancel_reason   text        NOT NULL DEFAULT '',
    progress        bytea,                              -- a Progress
    checkpoint      bytea,
    checkpoint_type text,
    error           bytea,                              -- a JobError
    error_type      text        NOT NULL DEFAULT '',
    log_lines       bigint      NOT NULL DEFAULT 0,
    log_bytes       bigint      NOT NULL DEFAULT 0,
    history         jobmesh.state_change[] NOT NULL,
    attempts        jobmesh.attempt[] NOT NULL DEFAULT '{}',
    traceparent     text        NOT NULL DEFAULT '',
    schedule_id     text        NOT NULL DEFAULT '',
    parent_job_id   uuid,
    PRIMARY KEY (job_id),
    CONSTRAINT live_states CHECK (state IN ('SCHEDULED', 'QUEUED', 'RUNNING', 'RETRYING', 'CANCELLING')),
    CONSTRAINT timed_iff_waiting CHECK ((run_at IS NOT NULL) = (state IN ('SCHEDULED', 'RETRYING'))),
    CONSTRAINT leased_iff_running CHECK ((session_id IS NOT NULL) = (state IN ('RUNNING', 'CANCELLING'))),
    CONSTRAINT held_only_if_queued CHECK (hold_reason IS NULL OR state = 'QUEUED'),
    CONSTRAINT slot_only_if_running CHECK (NOT slot OR state IN ('RUNNING', 'CANCELLING'))
) WITH (fillfactor = 70);

CREATE INDEX jobs_live_awake ON jobmesh.jobs_live (namespace, queue, priority, woken_at)
    WHERE state = 'QUEUED' AND hold_reason IS NULL;
-- The oldest of each priority, for release; and, for runners that look for what they know, those of each kind.
CREATE INDEX jobs_live_held ON jobmesh.jobs_live (namespace, queue, hold_reason, priority DESC, queued_at)
    WHERE hold_reason IS NOT NULL;
CREATE INDEX jobs_live_unserved ON jobmesh.jobs_live (namespace, queue, type, priority DESC, queued_at)
    WHERE hold_reason = 'NO_RUNNER';
CREATE INDEX jobs_live_due ON jobmesh.jobs_live (run_at) WHERE run_at IS NOT NULL;
-- For counting, and spelt so that nobody else is tempted: who looks for what is due would read all that waits.
CREATE INDEX jobs_live_waiting ON jobmesh.jobs_live (namespace, queue) WHERE (run_at IS NOT NULL) IS TRUE;
CREATE INDEX jobs_live_session ON jobmesh.jobs_live (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX jobs_live_listed ON jobmesh.jobs_live (namespace, create_time, job_id);

-- Terminal jobs: the same columns, and how they ended. One partition tree a state, since retention differs; days below.
CREATE TABLE jobmesh.jobs_history (
    LIKE jobmesh.jobs_live INCLUDING DEFAULTS,
    result      bytea,
    result_type text,
    end_time    timestamptz NOT NULL,
    CONSTRAINT terminal_states CHECK (state IN ('SUCCEEDED', 'CANCELLED', 'DEAD'))
) PARTITION BY LIST (state);

CREATE INDEX jobs_history_job ON jobmesh.jobs_history (job_id);
CREATE INDEX jobs_history_listed ON jobmesh.jobs_history (namespace, create_time, job_id);

CREATE TABLE jobmesh.jobs_succeeded PARTITION OF jobmesh.jobs_history FOR VALUES IN ('SUCCEEDED')
    PARTITION BY RANGE (end_time);
CREATE TABLE jobmesh.jobs_cancelled PARTITION OF jobmesh.jobs_history FOR VALUES IN ('CANCELLED')
    PARTITION BY RANGE (end_time);
CREATE TABLE jobmesh.jobs_dead PARTITION OF jobmesh.jobs_history FOR VALUES IN ('DEAD')
    PARTITION BY RANGE (end_time);

-- A finish never fails for want of a partition.
CREATE TABLE jobmesh.jobs_succeeded_rest PARTITION OF jobmesh.jobs_succeeded DEFAULT;
CREATE TABLE jobmesh.jobs_cancelled_rest PARTITION OF jobmesh.jobs_cancelled DEFAULT;
CREATE TABLE jobmesh.jobs_dead_rest PARTITION OF jobmesh.jobs_dead DEFAULT;

-- What callers' idempotency keys stand for.
CREATE TABLE jobmesh.request_ids (
    namespace   text        NOT NULL,
    request_id  text        NOT NULL,
    job_id      uuid        NOT NULL,
    digest      bytea       NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, request_id)
);
CREATE INDEX request_ids_age ON jobmesh.request_ids USING brin (create_time);

-- Calls of gateways that have been carried out, so that one that is sent again is not.
CREATE TABLE jobmesh.operations (
    operation_id uuid        PRIMARY KEY,
    create_time  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX operations_age ON jobmesh.operations USING brin (create_time);

-- Messages that a committed decision owes to the broker.
CREATE TABLE jobmesh.outbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subject     text        NOT NULL,
    body        bytea       NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE jobmesh.queues (
    namespace            text        NOT NULL,
    name                 text        NOT NULL,
    token                text        NOT NULL UNIQUE,  -- stands for (namespace, name) in subjects
    priorities           integer     NOT NULL DEFAULT 0,  -- one bit for each priority ever used
    max_running          bigint      CHECK (max_running > 0),
    max_depth            bigint      CHECK (max_depth > 0),
    default_retry_policy bytea       NOT NULL DEFAULT '',
    default_timeout      bytea       NOT NULL DEFAULT '',
    dispatch_paused      boolean     NOT NULL DEFAULT false,
    intake_paused        boolean     NOT NULL DEFAULT false,
    pause_note           text        NOT NULL DEFAULT '',
    revision             bigint      NOT NULL DEFAULT 1,
    create_time          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, name)
);

-- How many jobs of a queue run that has a limit: exact, and locked by every claim from it.
CREATE TABLE jobmesh.queue_slots (
    namespace text   NOT NULL,
    queue     text   NOT NULL,
    running   bigint NOT NULL CHECK (running >= 0),
    PRIMARY KEY (namespace, queue)
) WITH (fillfactor = 50);

-- Lives of runners' processes. Claims take the row FOR KEY SHARE under their attachment; attaching and ending change it.
CREATE TABLE jobmesh.sessions (
    session_id    uuid        PRIMARY KEY,
    attachment    uuid        NOT NULL,
    runner_id     text        NOT NULL,
    namespace     text        NOT NULL,
    dispatcher_id uuid        NOT NULL,
    counter       bigint      NOT NULL DEFAULT 0,
    slots         integer     NOT NULL,
    types         text[]      NOT NULL,
    queues        text[]      NOT NULL,
    version       text        NOT NULL,
    create_time   timestamptz NOT NULL DEFAULT now(),
    end_time      timestamptz,
    end_reason    text,
    UNIQUE (session_id, attachment)
) WITH (fillfactor = 50);

CREATE TABLE jobmesh.job_logs (
    job_id   uuid        NOT NULL,
    sequence bigint      NOT NULL,
    attempt  bigint      NOT NULL,
    "time"   timestamptz NOT NULL,
    level    smallint    NOT NULL,
    message  text        NOT NULL,
    PRIMARY KEY (job_id, sequence)
);

-- Who leads: a row a role. Whoever acts as a leader takes it FOR KEY SHARE with its epoch.
CREATE TABLE jobmesh.leadership (
    name    text   PRIMARY KEY,
    epoch   bigint NOT NULL,
    holder  text,
    counter bigint NOT NULL,
    UNIQUE (name, epoch)
) WITH (fillfactor = 50);
INSERT INTO jobmesh.leadership VALUES ('scheduler', 0, NULL, 0);

-- migrate:down

DROP SCHEMA jobmesh CASCADE;
