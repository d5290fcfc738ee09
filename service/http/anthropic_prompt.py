"""What a call of Anthropic's API says to the model, and the form of the answer that it wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import MAX_MESSAGES, JsonOptions, Message, Reasoning
from guided.spec.tools import MAX_TOOLS, ToolUse
from guided_service.defaults import filled_tools
from guided_service.http.anthropic_input import (
    AnthropicTurn,
    CacheControl,
    Texts,
    conversation_of,
    system_of,
)
from guided_service.http.anthropic_tools import (
    AnthropicTool,
    AnthropicToolChoice,
    chosen_of,
    is_parallel,
    tools_of,
)
from guided_service.http.constraints import Wanted, schema_of
from guided_service.http.fields import Budget, Given, Listed
from guided_service.http.hints import ANTHROPIC_HINTS
from guided_service.http.thinking import Effort, Thinking, bounded_by_effort, bounded_by_number
from guided_service.http.tools import tool_use
from guided_service.http.unions import OneOf

__all__ = ["AnthropicPrompt", "PromptFields"]


class OutputFormat(Given):
    """A JSON document that fits a schema."""

    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class OutputConfig(Given):
    """The form of the answer, and how much of the budget the thoughts before it may take."""

    format: OutputFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class BoundedThinking(Given):
    """Thoughts of so many tokens at most."""

    type: Literal["enabled"]
    budget_tokens: Budget
    display: Literal["summarized"] | None = None
    """The thoughts serve as their own summary: nothing here writes a shorter one."""


class AdaptiveThinking(Given):
    """Thoughts as long as the model likes, within a part of the budget."""

    type: Literal["adaptive"]
    display: Literal["summarized"] | None = None


class NoThinking(Given):
    """No thoughts."""

    type: Literal["disabled"]


class KeptThoughts(Given):
    """Earlier thoughts stay in the conversation, as they do here in any case."""

    type: Literal["clear_thinking_20251015"]
    keep: Literal["all"]


class ContextManagement(Given):
    """What becomes of earlier turns: nothing here leaves any out."""

    edits: Listed[KeptThoughts] = Field(default_factory=list)


ThinkingConfig: TypeAlias = Annotated[
    BoundedThinking | AdaptiveThinking | NoThinking, OneOf("type")
]


@dataclass(frozen=True, slots=True)
class AnthropicPrompt:
    """What the fields of a prompt mean, for a GenerationRequest."""

    messages: tuple[Message, ...]
    wanted: Wanted | None
    """The constraint of an answer without calls."""
    tools: ToolUse | None
    thinking: Thinking
    is_adaptive: bool
    """Whether a model without thoughts just answers."""
    fault: RequestError | None
    """Why a model with thoughts does not answer, where one without just does."""

    @property
    def continues(self) -> bool:
        """Whether the answer continues the last message."""
        return self.messages[-1].role == "assistant"

    @property
    def constraint_field(self) -> str | None:
        """The fields of the body that an error of the constraint is about."""
        field = None if self.wanted is None else self.wanted.field
        if self.tools is None:
            return field
        # An error names the tag, which names the tool.
        return "tools" if field is None else f"tools, or {field}"

    def options(self) -> dict[str, Any]:
        """Return the options of a GenerationRequest, by name."""
        return {
            "prompt": self.messages,
            "constraint": None if self.wanted is None else self.wanted.structure,
            "tools": self.tools,
            "reasoning": self.thinking.reasoning,
            "continue_final_message": self.continues,
        }


class PromptFields(Given):
    """The fields that make a prompt; those without a note mean what Anthropic says."""

    hints: ClassVar[Mapping[str, str]] = ANTHROPIC_HINTS
    page: ClassVar[str] = "docs/anthropic.md"

    messages: Annotated[Listed[AnthropicTurn], Field(min_length=1, max_length=MAX_MESSAGES)]
    system: Texts | None = None
    tools: Listed[AnthropicTool] = Field(default_factory=list, max_length=MAX_TOOLS)
    tool_choice: AnthropicToolChoice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    """The former place of ``output_config.format``."""

    # Fields that change nothing here
    cache_control: CacheControl | None = None
    context_management: ContextManagement | None = None
    speed: Literal["standard"] | None = None

    def prompt(
        self, options: JsonOptions, budget: int, others: Sequence[Wanted] = ()
    ) -> AnthropicPrompt:
        """Return what the fields mean together; raises RequestError for contradictions.

        ``options`` are those of schemas, ``budget`` is in tokens, for thoughts and answer
        together, and ``others`` are constraints of other fields.
        """
        found = [*self._formats(options), *others]
        if len(found) > 1:
            one, other = found[0].field, found[1].field
            raise RequestError(f"{one} and {other} both say what the answer is", field=other)
        wanted, chosen = found[0] if found else None, chosen_of(self.tool_choice)
        if not self.tools and (chosen.named is not None or chosen.word == "required"):
            raise RequestError("tool_choice needs tools", field="tool_choice")
        parallel = is_parallel(self.tool_choice)
        tools = tool_use(tools_of(self.tools), chosen, wanted, is_parallel=parallel)
        thinking, fault = self._thinking_if_able(budget)
        prompt = AnthropicPrompt(
            (*system_of(self.system), *conversation_of(self.messages)),
            wanted,
            filled_tools(tools, options),
            thinking,
            isinstance(self.thinking, AdaptiveThinking),
            fault,
        )
        if prompt.continues:
            self._check_begun(prompt)
        return prompt

    @property
    def _last_turn(self) -> str:
        return f"messages[{len(self.messages) - 1}]"

    def _check_begun(self, prompt: AnthropicPrompt) -> None:
        """Raise RequestError if the last turn, of the assistant, cannot be continued."""
        place = self._last_turn
        if prompt.tools is not None or prompt.messages[-1].tool_calls:
            raise RequestError(
                "a turn of the assistant that may call tools is not continued: a call in it may "
                "have begun",
                field=place,
                hint="end with a turn of the user, or leave tools and their calls out",
            )
        if not prompt.messages[-1].content.strip():
            raise RequestError(
                "a turn of the assistant without a text has nothing to continue",
                field=place,
                hint="leave it out",
            )

    def _formats(self, options: JsonOptions) -> list[Wanted]:
        new = None if self.output_config is None else self.output_config.format
        places = {"output_config.format": new, "output_format": self.output_format}
        return [
            Wanted(schema_of(form.schema_, options), f"{place}.schema")
            for place, form in places.items()
            if form is not None
        ]

    def _thinking_if_able(self, budget: int) -> tuple[Thinking, RequestError | None]:
        """Return how long the model thinks first, and the error for one that thinks.

        There is one only where a model without thoughts just answers.
        """
        try:
            return self._thinking_within(budget), None
        except RequestError as error:
            if not isinstance(self.thinking, AdaptiveThinking):
                raise
            # The frames of its traceback would keep the body.
            return Thinking(Reasoning(0), "thinking"), error.with_traceback(None)

    def _thinking_within(self, budget: int) -> Thinking:
        """Return how long the model thinks first.

        Without the field it does not, so that thoughts are never part of a text; then there is
        nothing that an effort bounds. Raises RequestError for thoughts that have no place.
        """
        thinks = isinstance(self.thinking, BoundedThinking | AdaptiveThinking)
        if thinks and self.messages[-1].role == "assistant":
            raise RequestError(
                "a turn of the assistant that has begun comes after its thoughts",
                field="thinking",
                hint=f"leave it out, or end with a turn of the user instead of {self._last_turn}",
            )
        effort: Effort | None = None if self.output_config is None else self.output_config.effort
        match self.thinking:
            case BoundedThinking() if effort is not None:
                raise RequestError(
                    "thinking.budget_tokens and output_config.effort both bound thoughts",
                    field="output_config.effort",
                    hint='leave it out, or set thinking to {"type": "adaptive"}',
                )
            case BoundedThinking(budget_tokens=most):
                return bounded_by_number(most, budget, "thinking.budget_tokens", "max_tokens")
            case AdaptiveThinking() if effort is not None:
                field, off = "output_config.effort", "leave thinking out"
                return bounded_by_effort(effort, budget, field, "max_tokens", off)
            case AdaptiveThinking():
                return Thinking(Reasoning(), "thinking")
        return Thinking(Reasoning(0), "thinking")
