SELECT carrier, month, avg(arr_delay)::float8 AS mean_delay
FROM flights
WHERE arr_delay IS NOT NULL
GROUP BY carrier, month
