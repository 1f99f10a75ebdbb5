"""Texts of handlers, made fit to be sent: protobuf takes no lone surrogates, PostgreSQL no NUL."""

from __future__ import annotations

GAP = "\n… {} characters left out …\n"


def clean(text: str) -> str:
    """The text without what cannot be stored."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def cut(text: str, most_characters: int) -> str:
    """The cleaned beginning of the text."""
    if len(text) > most_characters:
        text = text[: most_characters - 1] + "…"
    return clean(text)


def cut_bytes(text: str, most_bytes: int) -> str:
    """The cleaned beginning of the text, of at most so many bytes of UTF-8."""
    text = clean(text[: most_bytes + 1])
    data = text.encode()
    if len(data) <= most_bytes:
        return text
    return data[: most_bytes - 3].decode("utf-8", "ignore") + "…"


def head_and_tail(text: str, most_bytes: int) -> str:
    """The cleaned text with its middle left out if it is longer than so many bytes of UTF-8."""
    if len(text) <= most_bytes:
        text = clean(text)
        if text.isascii() or len(text.encode()) <= most_bytes:
            return text
    room = (most_bytes - 64) // 2
    head = clean(text[:room]).encode()[:room].decode("utf-8", "ignore")
    tail = clean(text[-room:]).encode()[-room:].decode("utf-8", "ignore")
    return head + GAP.format(len(text) - len(head) - len(tail)) + tail
