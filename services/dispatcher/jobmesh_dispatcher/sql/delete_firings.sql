-- Deletes old records of firings, those that wait for their turn apart. $1 how long they are kept,
-- $2 how many at the most; how many it were.
WITH old AS (
    SELECT ctid FROM jobmesh.firings
    WHERE record_time < now() - $1::interval
      AND (outcome <> 'BUFFERED' OR NOT EXISTS (SELECT FROM jobmesh.schedules s WHERE s.uid = schedule_uid))
    LIMIT $2
), gone AS (
    DELETE FROM jobmesh.firings USING old WHERE firings.ctid = old.ctid RETURNING 1
)
SELECT count(*) FROM gone
