-- migrate:up

-- When a job must have ended, whatever it does; and when it ends if it waits. The second is the first, or earlier as long as the
-- job has never started. Only jobs that have either are in the index.
ALTER TABLE jobmesh.jobs_live
    ADD COLUMN deadline timestamptz,
    ADD COLUMN expire_at timestamptz;
ALTER TABLE jobmesh.jobs_history
    ADD COLUMN deadline timestamptz,
    ADD COLUMN expire_at timestamptz;

CREATE INDEX jobs_live_expiring ON jobmesh.jobs_live (expire_at) WHERE expire_at IS NOT NULL;

-- migrate:down

DROP INDEX jobmesh.jobs_live_expiring;
ALTER TABLE jobmesh.jobs_live DROP COLUMN deadline, DROP COLUMN expire_at;
ALTER TABLE jobmesh.jobs_history DROP COLUMN deadline, DROP COLUMN expire_at;
