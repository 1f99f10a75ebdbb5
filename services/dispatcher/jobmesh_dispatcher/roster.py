"""The runners that are attached to this dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from uuid import UUID

from jobmesh.server.metrics import gauge
from jobmesh_dispatcher.attachment import Attachment
from jobmesh_dispatcher.claiming import Seat

RUNNERS = gauge("jobmesh_runners_attached", "Runners attached to this dispatcher.")


class Roster:
    """Attachments by session.

    At most one for each. `changed` is called when there may be more room.
    """

    def __init__(self) -> None:
        self._attachments: dict[UUID, Attachment] = {}
        self.changed: Callable[[], None] = lambda: None

    def __iter__(self) -> Iterator[Attachment]:
        return iter(list(self._attachments.values()))

    def __len__(self) -> int:
        return len(self._attachments)

    def get(self, session_id: UUID) -> Attachment | None:
        """The attachment of a session, if it is here."""
        return self._attachments.get(session_id)

    def add(self, attachment: Attachment) -> None:
        """Let a runner be given jobs; an earlier attachment of its session is closed."""
        earlier = self._attachments.get(attachment.session_id)
        if earlier is not None:
            earlier.close()
        self._attachments[attachment.session_id] = attachment
        attachment.has_room = self.changed
        RUNNERS.set(len(self._attachments))
        self.changed()

    def remove(self, attachment: Attachment) -> None:
        """Forget an attachment; a later one of its session stays."""
        if self._attachments.get(attachment.session_id) is attachment:
            del self._attachments[attachment.session_id]
            RUNNERS.set(len(self._attachments))

    @contextmanager
    def reserve(self, room: Mapping[UUID, int]) -> Iterator[None]:
        """Keep room of these sessions' runners for jobs that are being claimed."""
        with ExitStack() as stack:
            for session_id, number in room.items():
                if (attachment := self._attachments.get(session_id)) is not None:
                    stack.enter_context(attachment.reserve(number))
            yield

    @contextmanager
    def lend(self, room: Mapping[UUID, int]) -> Iterator[None]:
        """The same for jobs that may not come of it: what was not used is told to be room again."""
        try:
            with self.reserve(room):
                yield
        finally:
            if room:
                self.changed()

    def seats(self) -> list[Seat]:
        """What all of them can take."""
        return [attachment.seat() for attachment in self._attachments.values() if attachment.room]

    @property
    def free(self) -> int:
        """How many more jobs all of them take."""
        return sum(attachment.free for attachment in self._attachments.values())

    @property
    def idle(self) -> int:
        """How many jobs could begin at once."""
        return sum(attachment.idle for attachment in self._attachments.values())

    def hint_held(self, types: Iterable[str]) -> None:
        """Jobs of these types are parked: whoever knows one should look."""
        wanted = frozenset(types)
        for attachment in self._attachments.values():
            if attachment.types & wanted:
                attachment.held_hint = True
        self.changed()
