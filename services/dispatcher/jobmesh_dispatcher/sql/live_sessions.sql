-- The renewal counters of all sessions that have not ended.
SELECT session_id, attachment, runner_id, counter, dispatcher_id, slots, types FROM jobmesh.sessions
WHERE end_time IS NULL
