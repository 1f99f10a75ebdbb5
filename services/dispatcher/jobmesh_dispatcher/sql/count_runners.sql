-- The runners that are attached, by version, and how many dispatchers they are attached to.
SELECT version, count(*) AS runners, sum(slots) AS slots,
    (SELECT count(DISTINCT dispatcher_id) FROM jobmesh.sessions WHERE end_time IS NULL) AS dispatchers
FROM jobmesh.sessions
WHERE end_time IS NULL
GROUP BY version
ORDER BY version
