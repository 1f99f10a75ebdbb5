-- The first firing that waits of each schedule whose jobs have all ended. $1 the uid behind which to begin, $2 how
-- many.
SELECT DISTINCT ON (f.schedule_uid) f.schedule_uid, f.fire_time, f.kind
FROM jobmesh.firings f JOIN jobmesh.schedules s ON s.uid = f.schedule_uid
WHERE f.outcome = 'BUFFERED' AND f.schedule_uid > $1 AND NOT s.paused AND NOT EXISTS (
    SELECT FROM jobmesh.jobs_live j
    WHERE j.schedule_id = s.schedule_id AND j.schedule_id <> '' AND j.namespace = s.namespace)
ORDER BY f.schedule_uid, f.fire_time
LIMIT $2
