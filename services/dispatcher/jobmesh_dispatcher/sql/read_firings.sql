-- Firings that are recorded. $1 uids of schedules, $2 times, pair by pair.
SELECT firing.* FROM jobmesh.firings firing
JOIN unnest($1::uuid[], $2::timestamptz[]) AS wanted (schedule_uid, fire_time) USING (schedule_uid, fire_time)
