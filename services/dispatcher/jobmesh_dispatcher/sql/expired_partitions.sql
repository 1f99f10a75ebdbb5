-- Days whose jobs have all been kept for long enough, the oldest first. $1 parent, $2 retention.
SELECT day, day::timestamp AT TIME ZONE 'UTC' AS begins, (day + 1)::timestamp AT TIME ZONE 'UTC' AS ends
FROM (
    SELECT to_date(right(child.relname, 8), 'YYYYMMDD') AS day
    FROM pg_inherits link JOIN pg_class child ON child.oid = link.inhrelid
    WHERE link.inhparent = format('jobmesh.%I', $1::text)::regclass AND child.relname ~ '_[0-9]{8}$'
) AS partition
WHERE (day + 1)::timestamp AT TIME ZONE 'UTC' <= now() - $2::interval
ORDER BY day
