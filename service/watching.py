"""Reports how answers of watched requests come about in the engine process, as lines of JSON.

Each step that adds to an answer produces a line, which is sent like the text of a stream::

    {"tokens": [{"id": 5018, "text": "{\\"", "origin": "forced", ...}, ...],
     "steps": [{"number": 1, "about": "...", "tree": {"fate": "certain", ...}}]}
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from guided.errors import incident_of

if TYPE_CHECKING:
    from guided.decoding.trace import Trace
    from guided.inspection import TracedToken, Update, Watcher
    from guided.masks.vocabulary import Vocabulary
    from guided.spec import Alternative

__all__ = ["HasVocabulary", "Watches"]

_encode: Final = msgspec.json.Encoder().encode


class HasVocabulary(Protocol):
    """An engine whose answers can be reported token by token."""

    @property
    def vocabulary(self) -> Vocabulary: ...


class Watches:
    """The watched requests of one engine process."""

    def __init__(self, engine: HasVocabulary) -> None:
        self._engine = engine
        self._watchers: dict[str, Watcher] = {}

    def begin(self, request_id: str) -> Trace:
        """Return a trace to submit a request with."""
        # Imported here: few requests are watched, and a process must first tie its life to its
        # server's.
        from guided.decoding.trace import Trace
        from guided.inspection import Watcher

        trace = Trace()
        self._watchers[request_id] = Watcher(trace, self._engine.vocabulary)
        return trace

    def end(self, request_id: str) -> None:
        """Stop watching a request; unknown ids are fine."""
        self._watchers.pop(request_id, None)

    def told(self, ended: Collection[str] = ()) -> list[tuple[str, str]]:
        """Return the new lines with their requests; those of ``ended`` are their last."""
        lines, lost = [], list[str]()
        for request_id, watcher in self._watchers.items():
            try:
                update = watcher.read_update(is_ended=request_id in ended)
                line = None if update is None else _line(update)
            except Exception as error:
                # Only the watching is lost, not the answer or any other request.
                incident_of(error, f"request {request_id!r} could not be watched on")
                lost.append(request_id)
                continue
            if line is not None:
                lines.append((request_id, line))
        for request_id in (*ended, *lost):
            self.end(request_id)
        return lines


def _line(update: Update) -> str:
    tokens = [_token(token, text) for token, text in update.tokens]
    steps = [
        {"number": step.number, "about": step.summary, "tree": step.tree} for step in update.steps
    ]
    return _encode({"tokens": tokens, "steps": steps}).decode() + "\n"


def _token(token: TracedToken, text: str) -> dict[str, object]:
    from guided.inspection import show_bytes

    return {
        "id": token.token,
        "text": text,
        "shown": show_bytes(token.text),
        "origin": token.origin,
        "source": token.source,
        "kind": token.kind,
        "step": token.step,
        "probability": token.probability,
        "allowed_share": token.allowed_share,
        "likeliest": [_alternative(other) for other in token.likeliest],
    }


def _alternative(other: Alternative) -> dict[str, object]:
    from guided.inspection import show_bytes

    return {
        "id": other.token,
        "shown": show_bytes(other.text),
        "probability": math.exp(other.masked),
        "unmasked": math.exp(other.raw),
    }
