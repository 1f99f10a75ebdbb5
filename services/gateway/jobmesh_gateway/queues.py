"""QueueService."""

from __future__ import annotations

from collections.abc import AsyncIterator

from jobmesh.errors import InvalidField, NotFound
from jobmesh.page_token import parse_queue_token
from jobmesh.v1 import queue_service_pb2 as pb
from jobmesh.v1.dispatch_service_pb2 import (
    ChangeQueueRequest,
    ReadQueuesRequest,
    SetQueuePausedRequest,
)
from jobmesh.v1.queue_pb2 import Queue
from jobmesh.v1.queue_service_pb2_grpc import QueueServiceServicer
from jobmesh.validation import (
    Violations,
    check_note,
    check_page_size,
    check_queue_name,
    check_queue_settings,
    page_size_or_default,
    update_paths,
)
from jobmesh_gateway.dispatchers import Context, Dispatchers, answer, seconds_for
from jobmesh_gateway.unbuilt import no_events, not_built

FULL_NAME = "jobmesh.v1.QueueService"


class QueueServicer(QueueServiceServicer):
    """What the protos say of QueueService. Errors are raised; the server maps them."""

    def __init__(self, dispatchers: Dispatchers, namespace: str) -> None:
        self._dispatchers = dispatchers
        self._namespace = namespace

    async def ListQueues(
        self, request: pb.ListQueuesRequest, context: Context
    ) -> pb.ListQueuesResponse:
        _check_page(request, self._namespace)
        request.page_size = page_size_or_default(request.page_size)
        read = ReadQueuesRequest(namespace=self._namespace, page=request)
        call = self._dispatchers.stub.ReadQueues(read, timeout=seconds_for(context))
        found = await answer(call)
        return pb.ListQueuesResponse(queues=found.queues, next_page_token=found.next_page_token)

    async def GetQueue(self, request: pb.GetQueueRequest, context: Context) -> Queue:
        name = _checked_name(request.name)
        read = ReadQueuesRequest(namespace=self._namespace, names=[name])
        call = self._dispatchers.stub.ReadQueues(read, timeout=seconds_for(context))
        found = await answer(call)
        if not found.queues:
            raise NotFound.queue(name)
        return found.queues[0]

    async def UpdateQueue(self, request: pb.UpdateQueueRequest, context: Context) -> Queue:
        paths = _checked_paths(request)
        change = ChangeQueueRequest(namespace=self._namespace, request=request)
        change.request.update_mask.Clear()
        change.request.update_mask.paths.extend(paths)
        call = self._dispatchers.stub.ChangeQueue(change, timeout=seconds_for(context))
        return (await answer(call)).queue

    async def PauseQueue(self, request: pb.PauseQueueRequest, context: Context) -> Queue:
        found = Violations()
        check_queue_name(request.name, "name", found)
        check_note(request.note, "note", found)
        found.raise_any()
        return await self._set_paused(request.name, True, request.note, context)

    async def ResumeQueue(self, request: pb.ResumeQueueRequest, context: Context) -> Queue:
        return await self._set_paused(_checked_name(request.name), False, "", context)

    async def PurgeQueue(
        self, request: pb.PurgeQueueRequest, context: Context
    ) -> pb.PurgeQueueResponse:
        not_built("PurgeQueue", "list the jobs of the queue and cancel them with CancelJob")

    async def WatchQueues(
        self, request: pb.WatchQueuesRequest, context: Context
    ) -> AsyncIterator[pb.WatchQueuesResponse]:
        for event in no_events("WatchQueues", "ask for them with ListQueues"):
            yield event

    async def _set_paused(self, name: str, paused: bool, note: str, context: Context) -> Queue:
        change = SetQueuePausedRequest(
            namespace=self._namespace, name=name, paused=paused, note=note
        )
        call = self._dispatchers.stub.SetQueuePaused(change, timeout=seconds_for(context))
        return (await answer(call)).queue


def _checked_name(name: str) -> str:
    found = Violations()
    check_queue_name(name, "name", found)
    found.raise_any()
    return name


def _check_page(request: pb.ListQueuesRequest, namespace: str) -> None:
    found = Violations()
    check_page_size(request.page_size, "page_size", found)
    try:
        parse_queue_token(namespace, request.page_token)
    except InvalidField as error:
        found.take(error)
    found.raise_any()


def _checked_paths(request: pb.UpdateQueueRequest) -> list[str]:
    """The settings that the update changes; what it must not change is refused."""
    found = Violations()
    queue, masked = request.queue, bool(request.update_mask.paths)
    check_queue_name(queue.name, "queue.name", found)
    paths = update_paths(queue, request.update_mask.paths, "update_mask", found)
    check_queue_settings(queue, paths, masked, "queue", found)
    found.raise_any()
    return paths
