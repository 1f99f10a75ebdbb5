"""The states of a job are written in several places, and mean the same in all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobmesh.states import INITIAL, LEASED, LIVE, TERMINAL, TRANSITIONS, WAITING_FOR_TIME, State
from jobmesh.v1.job_pb2 import JobState
from jobmesh_dispatcher.sql import FOLDER, load

ROOT = Path(__file__).parents[3]
MIGRATIONS = FOLDER.parent / "migrations"
SCHEMA = "\n".join(path.read_text("utf-8") for path in sorted(MIGRATIONS.glob("*.sql")))
STATEMENTS = sorted(path.stem for path in FOLDER.glob("*.sql"))
# A statement that changes or deletes jobs, up to the next one in the same file.
CHANGE = re.compile(
    r"\b(?:UPDATE|DELETE FROM)\s+jobmesh\.(?:jobs_live|jobs_history)\b.*?"
    r"(?=\bUPDATE\b(?!\s+OF)|\bDELETE FROM\b|\bINSERT INTO\b|\Z)",
    re.DOTALL,
)


def test_the_contract_has_the_same_states() -> None:
    names = {name.removeprefix("JOB_STATE_") for name in JobState.keys()}  # noqa: SIM118
    assert names - {"UNSPECIFIED"} == {state.value for state in State}


@pytest.mark.parametrize(
    ("constraint", "states"),
    [
        ("live_states", LIVE),
        ("terminal_states", TERMINAL),
        ("timed_iff_waiting", WAITING_FOR_TIME),
        ("leased_iff_running", LEASED),
        ("slot_only_if_running", LEASED),
        ("held_only_if_queued", {State.QUEUED}),
    ],
)
def test_the_tables_allow_the_same_states(constraint: str, states: set[State]) -> None:
    found = re.search(rf"CONSTRAINT {constraint} CHECK (.*)", SCHEMA)
    assert found, f"no constraint {constraint}"
    assert set(re.findall(r"'([A-Z]+)'", found[1])) == set(states)


def test_each_terminal_state_has_partitions() -> None:
    assert set(re.findall(r"FOR VALUES IN \('([A-Z]+)'\)", SCHEMA)) == set(TERMINAL)


def test_the_transitions_make_sense() -> None:
    assert set(TRANSITIONS) == set(State)
    assert set(State) == LIVE | TERMINAL
    for left, entered in TRANSITIONS.items():
        assert left not in entered
        assert entered, f"nothing leads out of {left}"
        if left in TERMINAL:
            assert entered == {State.QUEUED}
    assert {state for entered in TRANSITIONS.values() for state in entered} | INITIAL == set(State)
    assert {left for left, entered in TRANSITIONS.items() if State.RUNNING in entered} == {
        State.QUEUED
    }


def test_diagrams_show_the_transitions() -> None:
    documents = [path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))]
    diagrams = re.findall(r"stateDiagram-v2(.*?)```", "\n".join(documents), re.DOTALL)
    for diagram in diagrams:
        arrows = set(re.findall(r"(\w+|\[\*\])\s*-->\s*(\w+|\[\*\])", diagram))
        starts = {b for a, b in arrows if a == "[*]"}
        transitions = {(a, b) for a, b in arrows if "[*]" not in (a, b)}
        assert starts == {state.value for state in INITIAL}
        assert transitions == {(a.value, b.value) for a, many in TRANSITIONS.items() for b in many}


def _code(statement: str) -> str:
    return re.sub(r"--.*", "", statement)


def changes() -> list[tuple[str, str]]:
    return [(name, found) for name in STATEMENTS for found in CHANGE.findall(_code(load(name)))]


@pytest.mark.parametrize(("name", "statement"), changes())
def test_a_change_of_jobs_names_the_states_that_it_leaves(name: str, statement: str) -> None:
    assert re.search(r"\bWHERE\b.*\bstate (=|IN|<>)", statement, re.DOTALL), (
        f"{name}.sql changes jobs whatever their state"
    )


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_transition_that_a_statement_announces_is_one(name: str) -> None:
    for left, entered in re.findall(r"^-- ([A-Z, ]+) -> ([A-Z, ]+):", load(name), re.MULTILINE):
        pairs = {(State(a), State(b)) for a in left.split(", ") for b in entered.split(", ")}
        # A change within a state, such as parking, is no transition.
        pairs = {(a, b) for a, b in pairs if a != b}
        reachable = {b for a, b in pairs if b in TRANSITIONS[a]}
        assert reachable == {b for _, b in pairs}, f"{name}.sql enters a state from nowhere"
        left_from = {a for a, b in pairs if b in TRANSITIONS[a]}
        assert left_from == {a for a, _ in pairs}, f"{name}.sql leaves a state for nowhere"


@pytest.mark.parametrize("name", STATEMENTS)
def test_only_what_is_announced_writes_a_state(name: str) -> None:
    writes = re.search(r"\bSET\s+state\b|INSERT INTO jobmesh\.jobs_\w+ \(", _code(load(name)))
    announced = re.search(
        r"^-- .* -> .*:|^-- .* as SCHEDULED or QUEUED\b", load(name), re.MULTILINE
    )
    assert not writes or announced, (
        f"{name}.sql writes a state and its comment does not say which: -- LEFT -> ENTERED: …"
    )
