"""The runner service of jobmesh: it hosts users' handlers.

Two threads, each with an event loop of its own. The *main* thread runs handlers (and starts threads
for plain functions). The *mesh* thread keeps the one stream to a dispatcher, so that a handler that
blocks its loop starves no lease. They talk by :mod:`handoff`, once a burst and not once a job.

Who is authoritative: the mesh thread. It knows which claims the runner holds (:mod:`claims`), what
is still to be sent (:mod:`outbox`) and when a handler must stop (:mod:`supervision`); the first
outcome of an attempt that reaches it counts. The main thread knows slots and handlers
(:mod:`executor`).

What is guaranteed: a claim is named in every `hello` until its report was answered, so that it is
neither lost nor reported twice under two outcomes; a report is sent again on every new stream until
then. Nothing is taken from a stream after `hello` was sent on its successor. If the session was
ended, every handler is told to stop and nothing of it is reported.
"""
