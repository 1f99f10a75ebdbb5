"""When schedules fire, and what a firing does: all that can be decided without a database.

* ``cron`` reads expressions; ``zones`` puts them on the clocks of a time zone.
* ``timetable`` joins what a schedule includes and excludes; ``jitter`` makes a firing late.
* ``catchup`` says which firings are made up for; ``overlap``, what one does while another runs.
* ``check`` finds mistakes in what callers send; ``definition`` makes a schedule of it.

Everything is reckoned from the schedule and a time that is passed in. Nothing here looks at a
clock: it is the database's that counts.
"""
