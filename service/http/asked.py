"""What a call over HTTP requests: a request for the engine, and the form of its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from guided.errors import RequestError
from guided.spec import CandidateResult, GenerationRequest, GenerationResult, TokenLogprobs
from guided.spec.tool_format import HERMES, ToolFormat
from guided_service.http.errors import JsonObject
from guided_service.http.sent_names import CameFrom

__all__ = ["Asked", "Form", "FormOfSeveral", "Shown"]


@dataclass(frozen=True, slots=True)
class Shown:
    """What every form of an answer states."""

    answer_id: str
    created: int
    """Seconds since 1970."""
    model: str
    tool_format: ToolFormat = HERMES
    context_window: int = 2**31 - 1
    """The most tokens that prompt and answer may have together."""


class Form(Protocol):
    """The form of one answer, whole or as it grows; each answer gets a new one."""

    def whole(self, result: GenerationResult, report: JsonObject | None = None) -> JsonObject:
        """Return the body of an answer, with the report on its constraint if it was requested."""

    def grown(self, text: str, logprobs: tuple[TokenLogprobs, ...] = (), index: int = 0) -> bytes:
        """Return the events of more text; none while they depend on what follows.

        ``logprobs`` are those of the tokens that have come with the text, ``index`` is the number
        of its answer.
        """

    def thought(self, text: str, index: int = 0) -> bytes:
        """Return the events of more of the thoughts before the text of an answer."""

    def closed(self, one: CandidateResult) -> bytes:
        """Return the last events of one of several answers, whose text went through ``grown``."""

    def ended(self, result: GenerationResult, report: JsonObject | None = None) -> bytes:
        """Return the last events of a stream: of its only answer, or all of those not closed.

        ``report`` is as in ``whole``.
        """

    def failed(self, error: JsonObject) -> bytes:
        """Return the last events of a stream that ends with an error."""


class FormOfSeveral(Form, Protocol):
    """The form of the answers to several prompts, as one body or one stream."""

    def beside(self, number: int) -> FormOfSeveral:
        """Return the form of the answer to the prompt of this number, from 0."""

    def together(
        self, results: Sequence[GenerationResult], report: JsonObject | None = None
    ) -> JsonObject:
        """Return the body of all answers, in the order of their prompts."""

    def last(self, result: GenerationResult) -> bytes:
        """Return the last events of one answer, which are not the end of the stream."""

    def end(self, results: Sequence[GenerationResult], report: JsonObject | None = None) -> bytes:
        """Return the end of the stream, after the last events of each answer."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One call's request."""

    model: str
    """The model's name as the caller gave it."""
    request: GenerationRequest
    form: Callable[[Shown], Form]
    is_streamed: bool
    came_from: CameFrom
    """The fields of the body that those of the request came from, for errors."""
    others: tuple[GenerationRequest, ...] = ()
    """Requests for further prompts, which are answered beside the first."""
    several: Callable[[Shown], FormOfSeveral] | None = None
    """The form of all answers, if there are others."""
    thinks_if_able: bool = False
    """Whether a model without thoughts just answers."""
    thoughts_fault: RequestError | None = None
    """The error for a model with thoughts, if only one without can answer."""

    @property
    def requests(self) -> tuple[GenerationRequest, ...]:
        """All requests."""
        return (self.request, *self.others)
