SELECT month,
       count(*)                                                AS flights,
       count(*) FILTER (WHERE dep_time IS NULL)                AS cancelled,
       coalesce(avg(arr_delay), 0)::float8                     AS mean_delay
FROM flights
GROUP BY month
ORDER BY month
