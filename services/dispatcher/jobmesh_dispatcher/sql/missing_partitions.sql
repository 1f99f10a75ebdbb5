-- Days from today on, by the database's clock, that have no partition. $1 days ahead.
SELECT parent, day::date AS day
FROM unnest(ARRAY['jobs_succeeded', 'jobs_cancelled', 'jobs_dead']) AS parent,
    generate_series((now() AT TIME ZONE 'UTC')::date, (now() AT TIME ZONE 'UTC')::date + $1::integer, interval '1 day') AS day
WHERE to_regclass(format('jobmesh.%I', parent || '_' || to_char(day, 'YYYYMMDD'))) IS NULL
ORDER BY day, parent
