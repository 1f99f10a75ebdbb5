-- A flight without a departure time never left.
SELECT count(*)                                                AS flights,
       count(*) FILTER (WHERE dep_time IS NULL)                AS cancelled,
       count(arr_delay)                                        AS arrived,
       coalesce(avg(arr_delay), 0)::float8                     AS mean_delay,
       count(*) FILTER (WHERE arr_delay > 15)                  AS late,
       coalesce(sum(distance) FILTER (WHERE dep_time IS NOT NULL), 0) AS miles,
       make_date(min(year), min(month), 1)                     AS first_month,
       make_date(max(year), max(month), 1)                     AS last_month
FROM flights
