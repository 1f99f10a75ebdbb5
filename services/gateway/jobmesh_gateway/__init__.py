"""The gateway: the public API of the mesh.

It checks what callers send, mints ids, and asks dispatchers for everything else; it keeps no state
beyond its open streams, so that any number of replicas serve side by side.

The hard part is watching (`watch`). What is authoritative: the dispatchers' database, read by
`reader`. What makes it fast: events over core NATS (`events`), which may be lost, repeated or come
out of order. `revisions` merges the two so that a watcher sees every change of state once and in
order; a lost event is noticed by the gap that it leaves, by the re-read a second after the start,
and at the latest by the slow poll that `watch` makes of every watched job. Without NATS the poll is
all there is, and faster.
"""
