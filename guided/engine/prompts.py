"""From the prompt of a request to the tokens that the model reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from guided.engine.request_clock import RequestClock
from guided.engine.submission import ServiceOrder
from guided.spec import GenerationRequest, JsonSchema, Message, TokenId, Tool
from guided.spec.prompt_bound import PromptBound

__all__ = ["PreparedPrompt", "Prompts", "Render"]

Render: TypeAlias = Callable[
    [str | tuple[Message, ...], str | None, bool | None, tuple[Tool, ...]], tuple[TokenId, ...]
]
"""Turns a prompt, the schema to show if any, ``allow_special_tokens``, and the tools to be told of
into tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPrompt:
    """A prompt as the model reads it."""

    tokens: tuple[TokenId, ...]
    clock: RequestClock
    """That of its request, which runs since its preparation began."""


class Prompts:
    """Prepares prompts, and refuses before that what cannot be served; for use by any thread."""

    def __init__(
        self, render: Render, bound: PromptBound | None, clock: Callable[[], float]
    ) -> None:
        """``clock`` tells seconds and never goes back."""
        self._render = render
        self.bound = bound
        self._now = clock

    def prepare(self, request: GenerationRequest, received: float | None) -> PreparedPrompt:
        """The prompt of a request; raises what is wrong with it, and DeadlineExceededError.

        The deadline counts from when the request was ``received``; ``None`` is now.
        """
        clock, now = RequestClock(), self._now()
        # A request that is late already must not cost the rendering of its prompt.
        ServiceOrder.of(request, now if received is None else received).check(now)
        if self.bound is not None:
            self.bound.check(request.prompt)
        tools = () if request.tools is None else request.tools.callable
        tokens = self._render(
            request.prompt, _shown_schema(request), request.allow_special_tokens, tools
        )
        return PreparedPrompt(tokens, clock)


def _shown_schema(request: GenerationRequest) -> str | None:
    constraint = request.constraint
    return constraint.text if request.show_schema and isinstance(constraint, JsonSchema) else None
