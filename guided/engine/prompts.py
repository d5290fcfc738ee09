"""Turns the prompt of a request into the tokens that the model reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from guided.engine.request_clock import RequestClock
from guided.engine.submission import ServiceOrder
from guided.engine.token_room import TokenRoom
from guided.errors import RequestError
from guided.masks.healing import OpenEnds
from guided.masks.vocabulary import Vocabulary
from guided.spec import (
    Choice,
    Constraint,
    EnginePrompt,
    GenerationRequest,
    JsonSchema,
    Regex,
    TokenId,
    Tool,
)
from guided.spec.composition import Sequence, Text
from guided.spec.continued import Continued
from guided.spec.prompt_bound import PromptBound
from guided.spec.thoughts import AfterThoughts
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import ToolFormat

if TYPE_CHECKING:
    from guided.model.chat_thoughts import ChatThoughts

__all__ = ["PreparedPrompt", "Prompts", "Render"]

RenderArgs: TypeAlias = tuple[EnginePrompt, str | None, bool | None, tuple[Tool, ...], bool]
"""A prompt, the schema to show if any, ``allow_special_tokens``, the tools to describe, and whether
the last message is continued."""

Render: TypeAlias = Callable[
    [EnginePrompt, str | None, bool | None, tuple[Tool, ...], bool],
    tuple[TokenId, ...],
]
"""Turns ``RenderArgs`` into tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPrompt:
    """A prompt as the model reads it, and the constraint on its answer."""

    tokens: tuple[TokenId, ...]
    constraint: Constraint
    """The constraint of the request, with calls of its tools in it, after any thoughts."""
    clock: RequestClock
    """The clock of its request, which runs since its preparation began."""


class Prompts:
    """Prepares prompts, and first refuses what cannot be served; for use from any thread."""

    def __init__(
        self,
        render: Render,
        vocabulary: Vocabulary,
        bound: PromptBound | None,
        tool_format: ToolFormat,
        room: TokenRoom,
        clock: Callable[[], float],
        thinking: ChatThoughts | None = None,
    ) -> None:
        """``clock`` returns seconds and never goes back; without ``thinking`` answers have no
        thoughts before them.
        """
        self._render = render
        self._thinking = thinking
        self._tool_format = tool_format
        self._room = room
        self.bound = bound
        self._now = clock
        # Ahead of the first request that needs it: no step is to wait for it.
        self._open_ends = OpenEnds(vocabulary)

    def prepare(self, request: GenerationRequest, received: float | None) -> PreparedPrompt:
        """Prepare the prompt of a request; raises its errors, and DeadlineExceededError.

        The deadline counts from when the request was ``received``; ``None`` is now.
        """
        clock, now = RequestClock(), self._now()
        # A request that is late already must not cost the rendering of its prompt.
        ServiceOrder.of(request, now if received is None else received).check(now)
        if self.bound is not None:
            self.bound.check(request.prompt)
        tools = () if request.tools is None else request.tools.callable_tools
        render_args: RenderArgs = (
            request.prompt,
            _find_shown_schema(request),
            request.allow_special_tokens,
            tools,
            request.continue_final_message,
        )
        if request.continue_final_message or request.heal:
            return PreparedPrompt(*self._continue(request, render_args), clock)
        constraint = self._constraint(request)
        # A call format with words before an answer has them in its grammar.
        constraint_begins_answer = request.tools is not None and bool(
            self._tool_format.before_content
        )
        thinking, reasoning = self._thinking, request.reasoning
        if thinking is None:
            if reasoning is not None and not reasoning.is_off:
                raise RequestError(
                    "this server lets no model think before it answers", field="reasoning"
                )
            return PreparedPrompt(self._render(*render_args), constraint, clock)
        if reasoning is not None:
            tokens = thinking.render(*render_args, thinks=not reasoning.is_off)
        elif _leaves_no_room_for_thoughts(request):
            tokens = thinking.end_thoughts(thinking.render(*render_args, thinks=False))
        else:
            tokens = self._render(*render_args)
        if reasoning is None or (reasoning.is_off and thinking.answers_at_once(tokens)):
            if isinstance(request.prompt, tuple) and not constraint_begins_answer:
                tokens = thinking.begin_answer(tokens)
            return PreparedPrompt(tokens, constraint, clock)
        tokens, end = thinking.begin_thoughts(
            tokens, reasoning, constraint_begins_answer=constraint_begins_answer
        )
        budget, most = self._room.budget_of(request, len(tokens)), reasoning.max_tokens
        # A budget that the room has lowered may be smaller than what the thoughts may have.
        thoughts = budget // 2 if most is None or most >= budget else most
        return PreparedPrompt(tokens, AfterThoughts(end, constraint, thoughts), clock)

    def _continue(
        self, request: GenerationRequest, render_args: RenderArgs
    ) -> tuple[tuple[TokenId, ...], Constraint]:
        """Return the tokens of a text that is continued, and the constraint on what follows."""
        if self._thinking is not None and request.reasoning is not None:
            tokens = self._thinking.render(*render_args, thinks=False)
        else:
            tokens = self._render(*render_args)
        text = request.begun
        if not text:
            assert isinstance(request.prompt, str), "messages that are answered have no end to heal"
            text = request.prompt
        num_open = 0 if request.heal is False else self._open_ends.count(tokens, text)
        respelled = self._open_ends.text_of(tokens[len(tokens) - num_open :])
        tokens, constraint = tokens[: len(tokens) - num_open], request.constraint
        begun = request.begun.removesuffix(respelled)
        if not request.begun and respelled and constraint is not None:
            # The constraint is on what follows the prompt, and tokens are taken off before that.
            constraint = Sequence([Text(respelled), constraint])
        is_continued = begun or respelled
        return tokens, Continued(constraint, begun, respelled) if is_continued else constraint

    def _constraint(self, request: GenerationRequest) -> Constraint:
        if request.tools is None:
            return request.constraint
        return with_calls(request.tools, request.constraint, self._tool_format)


def _leaves_no_room_for_thoughts(request: GenerationRequest) -> bool:
    """Whether thoughts that a chat template begins could only stand inside of the constraint.

    Grammars and compositions may have a place for thoughts, as text and calls of tools do.
    """
    if not isinstance(request.prompt, tuple):
        return False
    if request.tools is not None and request.tools.choice not in ("auto", "none"):
        return True
    return isinstance(request.constraint, JsonSchema | Choice | Regex)


def _find_shown_schema(request: GenerationRequest) -> str | None:
    constraint = request.constraint
    return constraint.text if request.show_schema and isinstance(constraint, JsonSchema) else None
