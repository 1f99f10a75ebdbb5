-- migrate:up

-- What steps of handlers came to: the first result of each stands, for all attempts of its job. Kept as long as the job is.
CREATE TABLE jobmesh.job_steps (
    job_id      uuid        NOT NULL,
    key         text        NOT NULL,
    attempt     bigint      NOT NULL,
    result      bytea       NOT NULL,
    result_type text        NOT NULL,
    "time"      timestamptz NOT NULL,
    PRIMARY KEY (job_id, key)
);

-- How many steps of the job are stored.
ALTER TABLE jobmesh.jobs_live ADD COLUMN steps integer NOT NULL DEFAULT 0;
ALTER TABLE jobmesh.jobs_history ADD COLUMN steps integer NOT NULL DEFAULT 0;

-- migrate:down

DROP TABLE jobmesh.job_steps;
ALTER TABLE jobmesh.jobs_live DROP COLUMN steps;
ALTER TABLE jobmesh.jobs_history DROP COLUMN steps;
