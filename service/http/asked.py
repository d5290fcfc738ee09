"""What a call over HTTP asks for: the request for the engine, and how its answer is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from guided.spec import GenerationRequest, GenerationResult, TokenLogprobs
from guided.spec.tool_format import HERMES, ToolFormat
from guided.v1 import generation_pb2 as pb
from guided.wire_request import encode_request
from guided_service.http.errors import JsonObject

__all__ = ["Asked", "Form", "Shown"]


@dataclass(frozen=True, slots=True)
class Shown:
    """What every form of an answer names."""

    answer_id: str
    created: int
    """Seconds since 1970."""
    model: str
    tool_format: ToolFormat = HERMES


class Form(Protocol):
    """How one answer is shown, whole or as it grows; made anew for each answer."""

    def whole(self, result: GenerationResult) -> JsonObject:
        """The body of an answer."""

    def grown(self, text: str, logprobs: tuple[TokenLogprobs, ...] = ()) -> bytes:
        """The events of more text; none where they have to wait for what follows.

        ``logprobs`` are those of the tokens that have come with it.
        """

    def thought(self, text: str) -> bytes:
        """The events of more of the thoughts before the text."""

    def ended(self, result: GenerationResult) -> bytes:
        """The last events of a stream, whose text ``grown`` was told, or of none."""

    def failed(self, error: JsonObject) -> bytes:
        """The last events of a stream that ends with an error."""


class FormOf(Protocol):
    """Makes the form of an answer."""

    def __call__(self, shown: Shown) -> Form: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """One call's request."""

    model: str
    """The name that the caller has for the model."""
    request: GenerationRequest
    message: pb.GenerateRequest
    """The same as it travels on, for traces."""
    form: FormOf
    is_streamed: bool = False
    constraint_field: str | None = None
    """The field of the body that the constraint came from, for errors."""
    reasoning_field: str | None = None
    """The same of thoughts."""

    @property
    def came_from(self) -> dict[str, str | None]:
        """By fields of the request those of the body, where they have other names."""
        return {"constraint": self.constraint_field, "reasoning": self.reasoning_field}

    @classmethod
    def of(
        cls,
        model: str,
        request: GenerationRequest,
        form: FormOf,
        *,
        is_streamed: bool,
        constraint_field: str | None,
        reasoning_field: str | None = None,
    ) -> Asked:
        """What is asked for, with its message."""
        message = encode_request(request)
        fields = constraint_field, reasoning_field
        return cls(model, request, message, form, is_streamed, *fields)
