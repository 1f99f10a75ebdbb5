-- migrate:up

-- When jobs are submitted, and which. Schedulers write what callers want, and the cursor; dispatchers fire, and may pause.
CREATE TABLE jobmesh.schedules (
    uid                  uuid        PRIMARY KEY,            -- one life of a schedule: one of the same name later is another
    namespace            text        NOT NULL,
    schedule_id          text        NOT NULL,
    definition           bytea       NOT NULL,               -- a Schedule, of what callers may set; without its job
    job                  bytea       NOT NULL,               -- a JobSpec
    overlap_policy       text        NOT NULL,
    pause_after_failures integer     NOT NULL DEFAULT 0,
    owner                text        NOT NULL DEFAULT '',
    paused               boolean     NOT NULL DEFAULT false,
    pause_note           text        NOT NULL DEFAULT '',
    revision             bigint      NOT NULL DEFAULT 1,     -- grows with each change but those of the next three
    cursor_time          timestamptz NOT NULL,               -- the last time that is dealt with
    next_fire_time       timestamptz,                        -- for people
    wake_time            timestamptz,                        -- when the leader has to look; NULL: never
    resume_time          timestamptz NOT NULL DEFAULT now(), -- failures before it do not count
    create_time          timestamptz NOT NULL DEFAULT now(),
    update_time          timestamptz NOT NULL DEFAULT now(),
    UNIQUE (namespace, schedule_id),
    CONSTRAINT asleep_if_paused CHECK (NOT paused OR wake_time IS NULL)
) WITH (fillfactor = 50);

CREATE INDEX schedules_due ON jobmesh.schedules (wake_time) WHERE wake_time IS NOT NULL;

-- What became of each time of a schedule. Its key is what makes a firing happen once.
CREATE TABLE jobmesh.firings (
    schedule_uid   uuid        NOT NULL,
    fire_time      timestamptz NOT NULL,
    kind           text        NOT NULL,
    outcome        text        NOT NULL,
    job_id         uuid,
    detail         text        NOT NULL DEFAULT '',
    record_time    timestamptz NOT NULL DEFAULT clock_timestamp(),
    count          integer     NOT NULL DEFAULT 1,           -- of times that were missed
    last_fire_time timestamptz,
    PRIMARY KEY (schedule_uid, fire_time),
    CONSTRAINT firing_kinds CHECK (kind IN ('DUE', 'CATCHUP', 'TRIGGERED', 'BACKFILLED')),
    CONSTRAINT firing_outcomes CHECK (outcome IN ('SUBMITTED', 'BUFFERED', 'SKIPPED', 'MISSED', 'REFUSED', 'REPLACED')),
    CONSTRAINT job_iff_submitted CHECK ((job_id IS NOT NULL) = (outcome = 'SUBMITTED'))
);

CREATE INDEX firings_buffered ON jobmesh.firings (schedule_uid, fire_time) WHERE outcome = 'BUFFERED';
CREATE INDEX firings_age ON jobmesh.firings USING brin (record_time);

-- Which jobs of a schedule have not ended.
CREATE INDEX jobs_live_schedule ON jobmesh.jobs_live (schedule_id) WHERE schedule_id <> '';

-- migrate:down

DROP INDEX jobmesh.jobs_live_schedule;
DROP TABLE jobmesh.firings;
DROP TABLE jobmesh.schedules;
