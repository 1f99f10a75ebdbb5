-- migrate:up

-- How much a job is suspected of taking its runner down: 0 not at all; 1 a runner was lost while it ran there, so that it is run
-- in a process of its own; 2 another one was lost in spite of that, so that it is given a runner for itself as well. And how long
-- the attempt had run then, at the most.
ALTER TABLE jobmesh.jobs_live
    ADD COLUMN suspect smallint NOT NULL DEFAULT 0,
    ADD COLUMN suspect_seconds float8;
ALTER TABLE jobmesh.jobs_history
    ADD COLUMN suspect smallint NOT NULL DEFAULT 0,
    ADD COLUMN suspect_seconds float8;

-- Those that wait for a runner for themselves. Hardly ever any.
CREATE INDEX jobs_live_lonely ON jobmesh.jobs_live (queued_at) WHERE suspect > 1 AND hold_reason = 'NO_RUNNER';

-- migrate:down

DROP INDEX jobmesh.jobs_live_lonely;
ALTER TABLE jobmesh.jobs_live DROP COLUMN suspect, DROP COLUMN suspect_seconds;
ALTER TABLE jobmesh.jobs_history DROP COLUMN suspect, DROP COLUMN suspect_seconds;
