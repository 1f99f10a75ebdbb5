from __future__ import annotations

import threading

from jobmesh_runner.threads import Threads


def _discard(_: object) -> None:
    pass


def test_work_never_waits_for_a_busy_thread() -> None:
    threads = Threads("test")
    together = threading.Barrier(21)
    for _ in range(20):
        threads.submit(lambda: _discard(together.wait(10)))
    together.wait(10)
    threads.stop()
    threads.join(10)


def test_threads_are_used_again() -> None:
    threads = Threads("test")
    names: list[str] = []
    for _ in range(50):
        done = threading.Event()

        def work(done: threading.Event = done) -> None:
            names.append(threading.current_thread().name)
            done.set()

        threads.submit(work)
        assert done.wait(10)
    threads.stop()
    threads.join(10)
    assert len(names) == 50
    # One may still be on its way back when the next work comes.
    assert len(set(names)) < 25


def test_work_that_raises_does_not_cost_the_thread() -> None:
    threads = Threads("test")
    done = threading.Event()
    threads.submit(lambda: _discard(1 / 0))
    threads.submit(done.set)
    assert done.wait(10)
    threads.stop()
    threads.join(10)
