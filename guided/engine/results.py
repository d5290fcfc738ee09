"""The results of the engine: text as it grows, and the ends of requests."""

from __future__ import annotations

from dataclasses import dataclass

from guided.engine.group import Group
from guided.errors import GuidedError
from guided.masks.vocabulary import Vocabulary
from guided.spec import GenerationResult, TokenLogprobs

__all__ = ["Delta", "Finished", "Results"]


@dataclass(frozen=True, slots=True)
class Delta:
    """Text that one step added to an answer which is streamed; all of them are its text."""

    request_id: str
    text: str
    """Whole characters, at least one."""
    is_thought: bool = False
    """Whether it is of the thoughts before the answer."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """Of the tokens of the answer since its last delta, where they are asked for: of those that the
    text is of, and of those whose text is kept back."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of one request: its answer, or the error that ended it."""

    request_id: str
    outcome: GenerationResult | GuidedError


class Results:
    """Collects results until the caller of the engine takes them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._deltas: list[Delta] = []
        self._finished: list[Finished] = []

    def __len__(self) -> int:
        return len(self._finished)

    def __contains__(self, request_id: object) -> bool:
        return any(finished.request_id == request_id for finished in self._finished)

    def stream(self, group: Group) -> None:
        """Hand out the part of a streamed text that became certain."""
        if thought := group.new_thoughts():
            self._deltas.append(Delta(group.request_id, thought, is_thought=True))
        if text := group.new_text():
            logprobs = group.new_logprobs(self._vocabulary)
            self._deltas.append(Delta(group.request_id, text, logprobs=logprobs))

    def finish(self, group: Group) -> GenerationResult:
        """Hand out the answer to a request; raises where it is not to be given."""
        try:
            result = group.result(self._vocabulary)
        finally:
            self.stream(group)  # the text comes before an error, too
        self._finished.append(Finished(group.request_id, result))
        return result

    def fail(self, request_id: str, error: GuidedError) -> None:
        """Hand out the error that ended a request."""
        self._finished.append(Finished(request_id, error))

    def forget(self, request_id: str) -> None:
        """Hand out nothing more of a request."""
        # Whoever cancelled does not expect anything of the request from here on.
        self._deltas = [delta for delta in self._deltas if delta.request_id != request_id]
        self._finished = [each for each in self._finished if each.request_id != request_id]

    def take_deltas(self) -> list[Delta]:
        """The deltas since this was last called."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def take_finished(self) -> list[Finished]:
        """The ends of requests since this was last called."""
        finished, self._finished = self._finished, []
        return finished
