-- How many jobs of schedules have not ended, and how many of their firings wait. $1 uids.
SELECT s.uid,
    (SELECT count(*) FROM jobmesh.jobs_live j
     WHERE j.schedule_id = s.schedule_id AND j.schedule_id <> '' AND j.namespace = s.namespace) AS active,
    (SELECT count(*) FROM jobmesh.firings f WHERE f.schedule_uid = s.uid AND f.outcome = 'BUFFERED') AS buffered
FROM jobmesh.schedules s WHERE s.uid = ANY ($1::uuid[])
