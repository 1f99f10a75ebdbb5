from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobmesh.v1.job_pb2 import LogLine
from jobmesh_runner.log_budget import MARKER, MOST_BYTES, MOST_LINES, LogBudget
from jobmesh_runner.wire_text import clean, cut, cut_bytes, head_and_tail

# With what trips protobuf and PostgreSQL: lone surrogates and NUL.
texts = st.text(st.characters(codec=None), max_size=300)
long_texts = st.builds(lambda text, n: text * n, texts, st.integers(1, 30))


@given(texts)
def test_anything_can_be_sent_once_cleaned(text: str) -> None:
    assert "\0" not in LogLine(message=clean(text)).message


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert clean(text) == text


@given(long_texts, st.integers(8, 500))
def test_the_beginning_is_kept_within_bounds(text: str, most: int) -> None:
    assert len(cut(text, most)) <= most
    assert len(cut_bytes(text, most).encode()) <= most
    if len(text) <= most:
        assert cut(text, most) == clean(text)


@given(long_texts, st.integers(200, 2000))
def test_head_and_tail_are_kept_within_bounds(text: str, most: int) -> None:
    shown = head_and_tail(text, most)
    assert len(shown.encode()) <= most
    if len(clean(text).encode()) <= most:
        assert shown == clean(text)


def test_a_long_traceback_keeps_both_ends() -> None:
    shown = head_and_tail("begin" + "x" * 5_000_000 + "end", 64 << 10)
    assert shown.startswith("begin")
    assert shown.endswith("end")
    assert "characters left out" in shown


def test_a_log_is_full_after_its_lines_and_says_so_once() -> None:
    budget = LogBudget()
    admitted = [budget.admit("x") for _ in range(MOST_LINES + 10)]
    assert admitted[: MOST_LINES - 1] == ["x"] * (MOST_LINES - 1)
    assert admitted[MOST_LINES - 1 :] == [MARKER, *[None] * 10]


@given(st.lists(st.integers(0, 8 << 10), min_size=200, max_size=400))
def test_a_log_is_full_after_its_bytes(sizes: list[int]) -> None:
    budget = LogBudget()
    admitted = [budget.admit("x" * size) for size in sizes]
    lines = [line for line in admitted if line is not None and line != MARKER]
    assert sum(map(len, lines)) <= MOST_BYTES
    assert admitted.count(MARKER) == (sum(sizes) > MOST_BYTES)
