-- Limited queues in which jobs of a schedule count. $1 namespace, $2 schedule id.
SELECT DISTINCT namespace, queue FROM jobmesh.jobs_live
WHERE namespace = $1 AND schedule_id = $2 AND schedule_id <> '' AND slot
