-- migrate:up

-- How much the wait of a job weighs: its age by the weight of its priority, which is that of its wake-ups. The more urgent
-- goes first, and none waits for ever behind those that keep coming.
CREATE FUNCTION jobmesh.urgency(priority smallint, queued_at timestamptz, now timestamptz)
RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(extract(epoch FROM now - queued_at)::float8, 0) * (priority + 1) ^ 2
$$;

-- migrate:down

DROP FUNCTION jobmesh.urgency(smallint, timestamptz, timestamptz);
