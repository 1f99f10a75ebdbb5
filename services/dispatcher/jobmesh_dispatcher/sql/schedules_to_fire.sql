-- What schedules submit, and under which revision. $1 their uids.
SELECT uid, namespace, schedule_id, job, revision FROM jobmesh.schedules WHERE uid = ANY ($1::uuid[])
