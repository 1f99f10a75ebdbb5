-- What time it is.
SELECT clock_timestamp() AS now
