-- Locks jobs that are QUEUED, in the order of their ids. A claim that is committed while this waits
-- is seen: the row then drops out. Tells which have expired, and which should have a runner for
-- themselves: not for ever, or runners that are never idle would let them starve. $1 job ids.
SELECT job_id, namespace, queue, type, priority, hold_reason, state,
    suspect > 1 AND queued_at > clock_timestamp() - interval '60 seconds' AS alone,
    coalesce(expire_at <= clock_timestamp(), false) AS expired,
    octet_length(payload) + coalesce(octet_length(checkpoint), 0) AS bytes
FROM jobmesh.jobs_live
WHERE job_id = ANY ($1::uuid[]) AND state = 'QUEUED'
ORDER BY job_id
FOR UPDATE
