"""What requests may contain: the limits that the comments of the protos state.

Every `check_…` function writes what is wrong, with the path of the field, into a `Violations`, so
that a caller learns of all mistakes at once. Nothing here does I/O or changes a request.
"""

from __future__ import annotations

from jobmesh.validation.identity import check_job_id
from jobmesh.validation.job_filter import check_filter
from jobmesh.validation.job_spec import check_job_spec
from jobmesh.validation.paging import check_page_size, page_size_or_default
from jobmesh.validation.queues import check_queue_name, check_queue_settings, update_paths
from jobmesh.validation.retry_policy import check_retry_policy
from jobmesh.validation.text import check_id, check_name, check_note
from jobmesh.validation.times import Span, check_duration, check_timestamp
from jobmesh.validation.violations import Violations

__all__ = [
    "Span",
    "Violations",
    "check_duration",
    "check_filter",
    "check_id",
    "check_job_id",
    "check_job_spec",
    "check_name",
    "check_note",
    "check_page_size",
    "check_queue_name",
    "check_queue_settings",
    "check_retry_policy",
    "check_timestamp",
    "page_size_or_default",
    "update_paths",
]
