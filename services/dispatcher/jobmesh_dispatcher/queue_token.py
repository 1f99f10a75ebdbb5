"""What stands for a queue in NATS subjects: names may contain dots, tokens may not."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256


@lru_cache(maxsize=4096)
def queue_token(namespace: str, queue: str) -> str:
    """16 hexadecimal digits, the same for the same queue for ever."""
    return sha256(f"{namespace}\0{queue}".encode()).hexdigest()[:16]
