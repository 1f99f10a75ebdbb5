from __future__ import annotations

import asyncio

import pytest

from tests.support.wait import until


async def test_the_value_is_returned() -> None:
    values = iter([0, None, "here"])
    assert await until(lambda: next(values)) == "here"


async def test_a_failed_assertion_counts_as_not_yet() -> None:
    values = iter([1, 2, 3])

    async def is_three() -> bool:
        value = next(values)
        assert value == 3, f"saw {value}"
        return True

    assert await until(is_three)


async def test_the_failure_says_what_was_seen() -> None:
    def never() -> bool:
        raise AssertionError("one is not two")

    with pytest.raises(AssertionError, match=r"not within 0.05 s: it is so; last .*one is not two"):
        await until(never, 0.05, lambda: "it is so")


async def test_a_condition_that_hangs_is_cut_off() -> None:
    async def hangs() -> bool:
        await asyncio.Event().wait()
        return True

    with pytest.raises(AssertionError, match="no answer"):
        await until(hangs, 0.05)


async def test_other_errors_are_passed_on() -> None:
    with pytest.raises(ZeroDivisionError):
        await until(lambda: 1 / 0)
