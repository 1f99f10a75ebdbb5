from __future__ import annotations

import threading

from jobmesh_runner.attempt import Attempt
from jobmesh_runner.claims import Claims
from tests.unit.runner.claims_of import attempt, report


def test_a_claim_is_named_until_it_is_dropped() -> None:
    claims, first, second = Claims(), attempt(1), attempt(2, of=4)
    claims.add(first)
    claims.add(second)
    assert [(x.job_id, x.attempt) for x in claims.leases()] == [("job-1", 1), ("job-2", 4)]
    claims.drop(first)
    assert first not in claims
    assert claims.get(second.key) is second
    assert len(claims) == 1


def test_a_claim_that_is_sent_again_is_the_one_that_is_held() -> None:
    claims, first = Claims(), attempt(1)
    again = attempt(1)
    assert claims.add(first)
    assert not claims.add(again)
    claims.drop(again)
    assert first in claims
    assert again not in claims


def test_another_attempt_of_the_same_job_is_another_claim() -> None:
    claims = Claims()
    assert claims.add(attempt(1, of=1))
    assert claims.add(attempt(1, of=2))
    assert len(claims) == 2


def test_those_that_ended_are_told_apart() -> None:
    claims, runs, ended = Claims(), attempt(1), attempt(2)
    claims.add(runs)
    claims.add(ended)
    ended.report = report(ended)
    assert claims.unreported() == [runs]


def test_each_waiting_claim_goes_to_one_thread_only() -> None:
    """The main thread begins some while the mesh thread withdraws others."""
    claims = Claims()
    attempts = [attempt(number) for number in range(20_000)]
    claims.waiting.extend(attempts)
    begun: list[Attempt] = []

    def begin() -> None:
        while claims.waiting:
            try:
                begun.append(claims.waiting.popleft())
            except IndexError:
                return

    thread = threading.Thread(target=begin)
    thread.start()
    withdrawn = [one for one in attempts[::50] if claims.withdraw(one)]
    withdrawn += list(claims.withdraw_all())
    thread.join()

    assert {id(one) for one in begun} | {id(one) for one in withdrawn} == set(map(id, attempts))
    assert len(begun) + len(withdrawn) == len(attempts)
