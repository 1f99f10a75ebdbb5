-- Seconds until the next job is due; NULL if nothing waits.
SELECT extract(epoch FROM min(run_at) - clock_timestamp())::float8 FROM jobmesh.jobs_live WHERE run_at IS NOT NULL
