-- Handlers of these sessions that have been asked to stop and have not reported. $1 session ids.
SELECT job_id, attempt, session_id, cancel_reason FROM jobmesh.jobs_live
WHERE session_id = ANY ($1::uuid[]) AND state = 'CANCELLING'
