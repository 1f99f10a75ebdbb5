SELECT carrier,
       coalesce(name, carrier)                                 AS name,
       count(*)                                                AS flights,
       count(*) FILTER (WHERE dep_time IS NULL)                AS cancelled,
       count(arr_delay)                                        AS arrived,
       coalesce(avg(arr_delay), 0)::float8                     AS mean_delay,
       count(*) FILTER (WHERE arr_delay > 15)                  AS late
FROM flights LEFT JOIN airlines USING (carrier)
GROUP BY carrier, name
ORDER BY mean_delay DESC, carrier
