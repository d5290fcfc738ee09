"""The results of the engine: text as it grows, and the ends of requests."""

from __future__ import annotations

from dataclasses import dataclass

from guided.engine.group import Group
from guided.errors import GuidedError
from guided.spec import GenerationResult
from guided.spec.delta import Delta

__all__ = ["Finished", "Results"]


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of one request: its answer, or the error that ended it."""

    request_id: str
    outcome: GenerationResult | GuidedError


class Results:
    """Collects results until the caller of the engine takes them."""

    def __init__(self) -> None:
        self._deltas: list[Delta] = []
        self._finished: list[Finished] = []

    def __len__(self) -> int:
        return len(self._finished)

    def __contains__(self, request_id: object) -> bool:
        return any(finished.request_id == request_id for finished in self._finished)

    def stream(self, group: Group) -> None:
        """Hand out what became certain of streamed answers."""
        self._deltas += group.take_deltas()

    def finish(self, group: Group) -> GenerationResult:
        """Hand out the answer to a request; raises if it may not be returned."""
        try:
            result = group.result()
        finally:
            self.stream(group)  # the text also comes before an error
        self._finished.append(Finished(group.request_id, result))
        return result

    def fail(self, request_id: str, error: GuidedError) -> None:
        """Hand out the error that ended a request."""
        self._finished.append(Finished(request_id, error))

    def forget(self, request_id: str) -> None:
        """Drop everything of a request that was not taken yet."""
        # Whoever cancelled does not expect anything of the request from here on.
        self._deltas = [delta for delta in self._deltas if delta.request_id != request_id]
        self._finished = [each for each in self._finished if each.request_id != request_id]

    def take_deltas(self) -> list[Delta]:
        """Return the deltas since the last call."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def take_finished(self) -> list[Finished]:
        """Return the ends of requests since the last call."""
        finished, self._finished = self._finished, []
        return finished
