"""What a watcher is told, as messages."""

from __future__ import annotations

from collections.abc import Collection

from google.protobuf.timestamp_pb2 import Timestamp

from jobmesh.v1.job_pb2 import Gap, Heartbeat, Job, JobEvent, Progress, Reconnect
from jobmesh_gateway.revisions import Changed, Ended, Missing, Snapshot, Told


def event_of(job_id: str, told: Told) -> JobEvent:
    """The message for what the merge tells."""
    match told:
        case Changed(change):
            return JobEvent(
                job_id=job_id, revision=change.revision, time=change.time, state_changed=change
            )
        case Snapshot(job):
            return JobEvent(job_id=job_id, revision=job.revision, time=_now(), snapshot=job)
        case Ended(job):
            return JobEvent(job_id=job_id, revision=job.revision, time=job.end_time, terminal=job)
        case Missing(first, last):
            gap = Gap(first_revision=first, last_revision=last)
            return JobEvent(job_id=job_id, revision=last, time=_now(), gap=gap)


def heartbeat(job_id: str, revision: int) -> JobEvent:
    """The stream lives."""
    return JobEvent(job_id=job_id, revision=revision, time=_now(), heartbeat=Heartbeat())


def reconnect(job_id: str, revision: int) -> JobEvent:
    """The stream ends before its job: watch again, after this revision."""
    return JobEvent(job_id=job_id, revision=revision, time=_now(), reconnect=Reconnect())


class SideEvents:
    """Progress, log lines and checkpoints for one watcher: newer than what it was told before."""

    def __init__(self, job_id: str, kinds: Collection[str]) -> None:
        self._job_id = job_id
        self._wants_progress = "progress" in kinds
        self._begun = False
        self._progress_time = (0, 0)
        self._line = 0

    def accept(self, event: JobEvent, revision: int) -> list[JobEvent]:
        """The event, unless it is stale; ``revision`` is the last one that was told."""
        if event.HasField("progress") and not self._is_news(event.progress):
            return []
        if event.HasField("log"):
            if event.log.sequence <= self._line:
                return []
            self._line = event.log.sequence
        if event.revision == revision:
            return [event]
        # What comes before or after its change of state must not seem to be beyond it: a watcher
        # may go on from the revision of any event. The event itself is shared.
        own = JobEvent()
        own.CopyFrom(event)
        own.revision = revision
        return [own]

    def catch_up(self, job: Job) -> list[JobEvent]:
        """Progress whose event was lost, from the job as it was read.

        The first job read only counts as told: the snapshot has its progress.
        """
        first, self._begun = not self._begun, True
        if not self._wants_progress or not job.HasField("progress"):
            return []
        if not self._is_news(job.progress) or first:
            return []
        progress = JobEvent(
            job_id=self._job_id,
            revision=job.revision,
            time=job.progress.update_time,
            progress=job.progress,
        )
        return [progress]

    def _is_news(self, progress: Progress) -> bool:
        time = (progress.update_time.seconds, progress.update_time.nanos)
        if time <= self._progress_time and time != (0, 0):
            return False
        self._progress_time = time
        return True


def _now() -> Timestamp:
    now = Timestamp()
    now.GetCurrentTime()
    return now
