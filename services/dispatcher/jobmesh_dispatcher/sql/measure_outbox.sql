-- How many messages the outbox holds, and for how many seconds the oldest has waited.
SELECT count(*) AS messages,
    coalesce(extract(epoch FROM clock_timestamp() - min(create_time)), 0)::float8 AS oldest_seconds
FROM jobmesh.outbox
