-- `line` is where the flight stands in the source file: the key that makes a replay harmless.
CREATE TABLE IF NOT EXISTS flights (
    line           integer PRIMARY KEY,
    year           smallint NOT NULL,
    month          smallint NOT NULL CHECK (month BETWEEN 1 AND 12),
    day            smallint NOT NULL CHECK (day BETWEEN 1 AND 31),
    dep_time       smallint,
    sched_dep_time smallint NOT NULL,
    dep_delay      smallint,
    arr_time       smallint,
    sched_arr_time smallint NOT NULL,
    arr_delay      smallint,
    carrier        text NOT NULL,
    flight         integer NOT NULL,
    tailnum        text,
    origin         text NOT NULL,
    dest           text NOT NULL,
    air_time       smallint,
    distance       smallint NOT NULL,
    hour           smallint NOT NULL,
    minute         smallint NOT NULL,
    time_hour      timestamptz NOT NULL
);

CREATE TABLE IF NOT EXISTS airlines (
    carrier text PRIMARY KEY,
    name    text NOT NULL
);
