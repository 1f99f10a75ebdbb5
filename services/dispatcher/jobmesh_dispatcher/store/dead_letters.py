"""Entries in the stream of dead letters: JSON, for others to consume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.json_format import MessageToJson

from jobmesh.v1.broker_pb2 import DeadLetter
from jobmesh.v1.job_pb2 import JobReason
from jobmesh_dispatcher.queue_token import queue_token

if TYPE_CHECKING:
    from asyncpg import Record


def dead_letter(row: Record) -> tuple[str, bytes]:
    """Subject and body for a job that died.

    The row has its names, `reason`, `attempt`, `error_type` and `end_time`.
    """
    letter = DeadLetter(
        job_id=str(row["job_id"]),
        namespace=row["namespace"],
        queue=row["queue"],
        type=row["type"],
        reason=JobReason.Value(f"JOB_REASON_{row['reason']}"),
        attempt=row["attempt"],
        error_type=row["error_type"],
    )
    letter.time.FromDatetime(row["end_time"])
    return dead_subject(queue_token(row["namespace"], row["queue"])), encode(letter)


def dead_subject(token: str) -> str:
    """Where dead letters of a queue are published."""
    return f"jm.dead.{token}"


def encode(letter: DeadLetter) -> bytes:
    """The JSON of an entry, with the field names of the contract."""
    return MessageToJson(letter, preserving_proto_field_name=True, indent=None).encode()
