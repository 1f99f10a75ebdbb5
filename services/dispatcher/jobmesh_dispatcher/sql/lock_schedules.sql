-- Locks schedules, so that nobody else fires or changes them. $1 their uids.
SELECT uid, namespace, schedule_id, overlap_policy, pause_after_failures, paused, revision, resume_time
FROM jobmesh.schedules WHERE uid = ANY ($1::uuid[])
ORDER BY uid
FOR NO KEY UPDATE
