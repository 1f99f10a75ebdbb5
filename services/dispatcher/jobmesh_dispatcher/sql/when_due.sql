-- Seconds until the next job is due, NULL if none waits for its time; no row if the epoch is over.
-- $1 role, $2 epoch.
SELECT (
    SELECT extract(epoch FROM min(run_at) - clock_timestamp())::float8 FROM jobmesh.jobs_live WHERE run_at IS NOT NULL
)
FROM jobmesh.leadership WHERE name = $1 AND epoch = $2
