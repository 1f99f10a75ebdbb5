-- Seconds until the next job is due, and until the next one that waits expires, NULL if none does; no row if the
-- epoch is over. $1 role, $2 epoch.
SELECT
    (SELECT extract(epoch FROM min(run_at) - clock_timestamp())::float8 FROM jobmesh.jobs_live
     WHERE run_at IS NOT NULL) AS due,
    (SELECT extract(epoch FROM min(expire_at) - clock_timestamp())::float8 FROM jobmesh.jobs_live
     WHERE expire_at IS NOT NULL AND state IN ('SCHEDULED', 'QUEUED', 'RETRYING')) AS expiry
FROM jobmesh.leadership WHERE name = $1 AND epoch = $2
