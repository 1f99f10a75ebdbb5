-- Which schedules have failed as often in a row as they may: the jobs of so many of their latest
-- firings that have ended, since they were resumed, are all DEAD. $1 uids.
SELECT s.uid FROM jobmesh.schedules s
WHERE s.uid = ANY ($1::uuid[]) AND s.pause_after_failures > 0 AND s.pause_after_failures = (
    SELECT count(*) FILTER (WHERE latest.state = 'DEAD') FROM (
        SELECT job.state FROM (
            SELECT f.job_id, f.fire_time FROM jobmesh.firings f
            WHERE f.schedule_uid = s.uid AND f.outcome = 'SUBMITTED' AND f.record_time > s.resume_time
            ORDER BY f.fire_time DESC LIMIT 2 * s.pause_after_failures + 10
        ) AS fired
        JOIN jobmesh.jobs job ON job.job_id = fired.job_id AND job.namespace = s.namespace
        WHERE job.state IN ('SUCCEEDED', 'CANCELLED', 'DEAD')
        ORDER BY fired.fire_time DESC LIMIT s.pause_after_failures
    ) AS latest)
