-- Whether a job that waits has expired; no row if the epoch is over. $1 role, $2 epoch.
-- statement_timestamp() is the same for all rows, so that an index on the time can end the search.
SELECT EXISTS (
    SELECT FROM jobmesh.jobs_live
    WHERE expire_at <= statement_timestamp() AND state IN ('SCHEDULED', 'QUEUED', 'RETRYING')
)
FROM jobmesh.leadership WHERE name = $1 AND epoch = $2
