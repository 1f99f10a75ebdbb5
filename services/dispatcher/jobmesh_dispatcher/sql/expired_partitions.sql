-- What jobs have been kept for long enough: whole days, the oldest first, and then what the rest partition has of such jobs.
-- $1 name of the state's table, $2 retention.
SELECT name, to_date(right(name, 8), 'YYYYMMDD') AS day,
    to_date(right(name, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' AS begins,
    (to_date(right(name, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' AS ends
FROM (
    SELECT child.relname::text AS name
    FROM pg_inherits link JOIN pg_class child ON child.oid = link.inhrelid
    WHERE link.inhparent = format('jobmesh.%I', $1::text)::regclass AND child.relname ~ '_[0-9]{8}$'
) AS partition
WHERE (to_date(right(name, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= now() - $2::interval
UNION ALL
SELECT $1::text || '_rest', NULL, 'epoch', now() - $2::interval
ORDER BY day NULLS LAST
