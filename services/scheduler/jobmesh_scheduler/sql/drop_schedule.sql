-- Removes a schedule that is locked. $1 uid.
DELETE FROM jobmesh.schedules WHERE uid = $1
