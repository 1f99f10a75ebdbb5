"""``job.once`` and ``job.heartbeat``, as a handler and its test see them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest

from jobmesh import App, JobContext, NotSerializable, PayloadTooLarge, SyncJobContext
from jobmesh import steps as steps_module
from jobmesh.steps import AT_ONCE, AsyncSteps, Function, StepBook, SyncSteps
from jobmesh.testing import Setting, run_task
from tests.support.wait import until

app = App()
charged: list[str] = []


@dataclass
class Receipt:
    number: int


@pytest.fixture(autouse=True)
def nothing_charged() -> None:
    charged.clear()


@app.task("order")
async def order(job: JobContext, card: str) -> dict[str, Any]:
    async def charge() -> Receipt:
        charged.append(card)
        return Receipt(7)

    receipt = await job.once("charge", charge, Receipt)
    again = await job.once("charge", charge)
    token = await job.once("token", lambda: "abc")
    return {"number": receipt.number, "again": again, "token": token}


@app.task("order.sync")
def order_sync(job: SyncJobContext, card: str) -> dict[str, Any]:
    def charge() -> Receipt:
        charged.append(card)
        return Receipt(8)

    receipt = job.once("charge", charge, Receipt)
    job.heartbeat()
    return {"number": receipt.number, "again": job.once("charge", charge)}


async def test_a_step_is_run_once_and_gives_the_same_from_then_on() -> None:
    run = await run_task(order, card="1234")
    assert run.result == {"number": 7, "again": {"number": 7}, "token": "abc"}
    assert charged == ["1234"]
    assert run.steps == {"charge": {"number": 7}, "token": "abc"}


async def test_a_step_of_an_earlier_attempt_is_not_run_again() -> None:
    run = await run_task(order, Setting(attempt=2, steps={"charge": {"number": 6}}), card="1234")
    assert run.result == {"number": 6, "again": {"number": 6}, "token": "abc"}
    assert charged == []
    assert run.steps == {"token": "abc"}


async def test_a_plain_handler_has_steps_and_a_heartbeat_as_well() -> None:
    run = await run_task(order_sync, card="1234")
    assert run.result == {"number": 8, "again": {"number": 8}}
    assert (charged, run.heartbeats) == (["1234"], 1)


@app.task("wrong")
async def wrong(job: JobContext, how: str) -> None:
    if how == "raises":
        await job.once("a", lambda: 1 // 0)
    elif how == "large":
        await job.once("a", lambda: "x" * (1 << 20))
    elif how == "foreign":
        await job.once("a", object)
    elif how == "key":
        await job.once("", lambda: 1)
    else:
        await job.once("a\nb", lambda: 1)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("raises", ZeroDivisionError),
        ("large", PayloadTooLarge),
        ("foreign", NotSerializable),
        ("key", ValueError),
        ("unprintable", ValueError),
    ],
)
async def test_what_goes_wrong_is_raised_and_nothing_is_stored(
    how: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await run_task(wrong, how=how)


class Store:
    """What is stored, and what was asked of it; answers when it is told to."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.waiting: list[tuple[Future[Any], Any]] = []
        self.answers = True

    def find_step(self, key: str) -> Future[bytes | None]:
        self.asked.append(f"find {key}")
        return self._answer(self.stored.get(key))

    def store_step(self, key: str, data: bytes) -> Future[bytes]:
        self.asked.append(f"store {key}")
        return self._answer(self.stored.setdefault(key, data))

    def answer_all(self) -> None:
        """Answer those that wait."""
        waiting, self.waiting = self.waiting, []
        for done, value in waiting:
            done.set_result(value)

    def _answer(self, value: Any) -> Future[Any]:
        done: Future[Any] = Future()
        if self.answers:
            done.set_result(value)
        else:
            self.waiting.append((done, value))
        return done


async def test_nobody_is_asked_while_nothing_is_stored() -> None:
    store = Store()
    steps = AsyncSteps(StepBook(store, known=0))
    await steps.once("a", lambda: 1, None)
    await steps.once("b", lambda: 2, None)
    assert store.asked == ["store a", "store b"]
    await steps.once("a", lambda: 3, None)
    assert store.asked[2:] == ["find a"]


async def test_two_at_once_with_one_key_run_it_once() -> None:
    store, runs = Store(), 0
    steps = AsyncSteps(StepBook(store, known=0))

    async def slow() -> int:
        nonlocal runs
        runs += 1
        await asyncio.sleep(0)
        return runs

    assert await asyncio.gather(*(steps.once("a", slow, None) for _ in range(5))) == [1] * 5


def test_two_threads_with_one_key_run_it_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    store, runs = Store(), iter(range(1, 9))
    steps = SyncSteps(StepBook(store, known=0))
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(steps.once, "a", lambda: next(runs), None) for _ in range(4)]
        assert [future.result() for future in done] == [1] * 4
    assert next(runs) == 2


async def test_a_handler_that_is_stopped_meanwhile_waits_until_its_result_is_stored() -> None:
    store = Store()
    store.answers = False
    task = asyncio.create_task(AsyncSteps(StepBook(store, 0)).once("a", lambda: 1, None))
    await until(lambda: store.waiting)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    (done, value), *_ = store.waiting
    done.set_result(value)
    with pytest.raises(asyncio.CancelledError):
        await task


MANY = 40


async def at_once(steps: AsyncSteps, functions: Iterable[Function]) -> None:
    """A handler that runs steps at once. It ends with the first that is cancelled."""
    await asyncio.gather(*(steps.once(f"{n}", f, None) for n, f in enumerate(functions)))


def many_steps(store: Store) -> asyncio.Task[None]:
    """A handler whose functions have all returned once the loop has turned."""
    store.answers = False
    functions = [lambda n=n: n for n in range(MANY)]
    return asyncio.create_task(at_once(AsyncSteps(StepBook(store, 0)), functions))


async def until_over(handler: asyncio.Task[None], store: Store) -> int:
    """Answer what is asked until the handler has ended; how much was asked at once."""
    most = 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, len(store.waiting))
        store.answer_all()
        return handler.done()

    await until(is_over, describe=lambda: store.asked)
    return most


async def test_a_stop_loses_no_result_that_waits_for_its_turn_to_be_stored() -> None:
    store = Store()
    handler = many_steps(store)
    await until(lambda: len(store.waiting) == AT_ONCE)
    handler.cancel()
    assert await until_over(handler, store) == AT_ONCE
    assert handler.cancelled()
    assert sorted(map(int, store.stored)) == list(range(MANY))


async def test_a_second_stop_loses_no_result_either() -> None:
    store = Store()
    handler = many_steps(store)
    await until(lambda: len(store.waiting) == AT_ONCE)
    handler.cancel()
    store.answer_all()
    await until(lambda: len(store.waiting) == AT_ONCE)
    handler.cancel()
    await until_over(handler, store)
    assert len(store.stored) == MANY


async def test_a_step_that_a_stop_finds_at_work_waits_for_the_results_of_others() -> None:
    store = Store()
    store.answers = False
    functions = [*(lambda n=n: n for n in range(MANY)), asyncio.Event().wait]
    handler = asyncio.create_task(at_once(AsyncSteps(StepBook(store, 0)), functions))
    await until(lambda: len(store.waiting) == AT_ONCE)
    handler.cancel()
    await until_over(handler, store)
    assert len(store.stored) == MANY


async def test_a_stopped_handler_waits_no_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps_module, "STORE_SECONDS", 0.05)
    store = Store()
    handler = many_steps(store)
    await until(lambda: len(store.waiting) == AT_ONCE)
    handler.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handler
    # Those that waited for a place may have been sent as others gave theirs up; none is any more.
    sent = list(store.asked)
    assert len(sent) >= AT_ONCE
    await until(lambda: len(asyncio.all_tasks()) == 1, describe=asyncio.all_tasks)
    assert store.asked == sent
    assert all(done.cancelled() for done, _ in store.waiting)


async def test_functions_that_take_long_keep_no_other_result_from_being_stored() -> None:
    store, go_on = Store(), asyncio.Event()
    steps = AsyncSteps(StepBook(store, 0))
    slow = [asyncio.create_task(steps.once(f"{n}", go_on.wait, None)) for n in range(MANY)]
    assert await steps.once("quick", lambda: 1, None) == 1
    assert store.asked == ["store quick"]
    go_on.set()
    assert await asyncio.gather(*slow) == [True] * MANY
