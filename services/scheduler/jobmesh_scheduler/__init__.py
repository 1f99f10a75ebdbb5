"""The scheduler: what depends on time, done by one leader at a time.

Any number of schedulers run; one of them leads. PostgreSQL's row ``jobmesh.leadership`` is the
authority: whoever holds it under the latest *epoch* leads. The leader writes no job itself. It asks
dispatchers, who check its epoch in the transaction that acts, so that a leader which was paused or
cut off cannot act once its successor has begun, whatever it believes meanwhile.

* ``observation`` tells from reads, by the observer's own monotonic clock, whose counter stood
  still.
* ``ballot`` reads and changes the row; ``election`` follows it, takes it over and renews it;
  ``tenure`` is one time of leading.
* ``promotion``, ``sessions``, ``reconciliation``, ``retention``, ``firing`` and ``buffering`` are
  among the leader's duties, and ``duties`` runs them for one tenure.
* ``schedule_service`` answers gateways, whether this scheduler leads or not: ``schedule_store``
  reads and changes schedules, ``requested`` has them fired when a caller asks for it.

What happens on failures: no scheduler, and nothing is promoted, expired or repaired until one runs
again, while ready jobs go on. No database, and the leader stands down by its own clock; who comes
next observes anew, so that an outage alone ends no tenure and no session. A leader that was killed
is followed after the lease (2 s), one that was stopped cleanly within half a second.
"""
