"""What an attachment sends, and when it gives its runner up."""

from __future__ import annotations

from jobmesh.errors import InvalidField, Unavailable
from jobmesh.v1 import runner_service_pb2 as pb
from jobmesh.v1.job_pb2 import Payload, RetryPolicy
from jobmesh_dispatcher.attachment import MAX_OUTBOUND, MESSAGE_BYTES, Attachment
from jobmesh_dispatcher.lease import Lease
from tests.support import decisions as d
from tests.support.dispatchers import hello

MOST_MESSAGE_BYTES = 16 << 20


def claimed(attachment: Attachment, size: int) -> tuple[Lease, pb.Assignment]:
    lease = Lease(
        job_id=d.uid(),
        attempt=1,
        session_id=attachment.session_id,
        namespace="default",
        queue="default",
        priority=4,
        type="t",
        failures=0,
        crashes=0,
        suspect=0,
        policy=RetryPolicy(),
        counted=False,
        started=False,
        reported=False,
        log_lines=0,
        log_bytes=0,
    )
    return lease, pb.Assignment(job_id=str(lease.job_id), payload=Payload(data=b"x" * size))


async def sent(attachment: Attachment) -> list[pb.WorkResponse]:
    attachment.close()
    return [response async for response in attachment.outbound()]


async def test_no_message_of_assignments_is_too_large_to_be_sent() -> None:
    attachment = Attachment(hello(slots=100))
    jobs = [claimed(attachment, 1 << 20) for _ in range(40)]
    attachment.assign(jobs)
    messages = await sent(attachment)
    assert all(message.ByteSize() < MOST_MESSAGE_BYTES for message in messages)
    told = [job.job_id for message in messages for job in message.assignments.jobs]
    assert told == [str(lease.job_id) for lease, _ in jobs]


async def test_small_assignments_share_a_message() -> None:
    attachment = Attachment(hello(slots=100))
    attachment.assign([claimed(attachment, 10) for _ in range(100)])
    assert len(await sent(attachment)) == 1


async def test_a_runner_that_does_not_read_is_given_up_and_harms_nobody() -> None:
    attachment = Attachment(hello(slots=100))
    for number in range(MAX_OUTBOUND + 1):
        attachment.send(pb.WorkResponse(pong=pb.Pong(sequence=number)))
    attachment.assign([claimed(attachment, 10)])  # by the dispatch loop, which serves others too
    assert isinstance(attachment.error, Unavailable)
    assert attachment.free == 0
    assert await sent(attachment) == []


async def test_one_behind_a_slow_link_is_given_no_more_until_it_has_read() -> None:
    attachment = Attachment(hello(slots=100))
    told: list[int] = []
    attachment.has_room = lambda: told.append(attachment.free)
    attachment.assign([claimed(attachment, MESSAGE_BYTES) for _ in range(5)])
    assert attachment.free == 0
    read = 0
    async for _ in attachment.outbound():
        read += 1
        if told:
            break
    assert read == 3, "the second has left when the third is asked for"
    assert told == [95]


async def test_the_first_fault_of_a_runner_is_what_its_stream_ends_with() -> None:
    attachment = Attachment(hello())
    attachment.fail(InvalidField("job_id", "must be a UUID"))
    attachment.fail(Unavailable("later"))
    assert isinstance(attachment.error, InvalidField)


async def test_it_has_more_room_than_idle_slots() -> None:
    said = hello(slots=3)
    said.prefetch = 5
    attachment = Attachment(said)
    idle, room = [], []
    for _ in range(9):
        idle.append(attachment.idle)
        room.append(attachment.room)
        attachment.hold(claimed(attachment, 1)[0])
    assert idle == [3, 2, 1, 0, 0, 0, 0, 0, 0]
    assert room == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    attachment.leases.clear()
    attachment.set_aside = True
    assert attachment.idle == 0
