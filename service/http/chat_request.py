"""Requests of ``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from guided.errors import RequestError
from guided.spec import MAX_MESSAGES, MAX_TOP_LOGPROBS, GenerationRequest, JsonSchema
from guided.spec.tools import MAX_TOOLS
from guided_service.call_reader import reader_of
from guided_service.config import ServerConfig
from guided_service.defaults import filled_tools
from guided_service.http.asked import Asked
from guided_service.http.chat_answer import ChatForm, ChatStyle
from guided_service.http.constraints import ConstraintFields
from guided_service.http.continuing import ContinuingFields
from guided_service.http.fields import Body, Budget, Given, Listed, Off, given
from guided_service.http.hints import answer_hints
from guided_service.http.messages import Turn, conversation, described
from guided_service.http.sent_names import CameFrom, named_as_sent
from guided_service.http.thinking import Effort, Thinking, ThinkingFields
from guided_service.http.tools import (
    ChatTool,
    ToolChoice,
    chosen_of,
    custom_names,
    definition_fields,
    tool_use,
)

__all__ = ["DEFAULT_BUDGET", "ChatRequest", "StreamOptions", "read_chat"]

DEFAULT_BUDGET: Final = 1024
"""The budget of an answer whose request sets none, if the context has room for it."""


class StreamOptions(Given):
    """What a stream contains in addition."""

    include_usage: bool = False
    include_obfuscation: Off | None = None
    """No padding is added to hide the length of tokens."""


class ChatRequest(ConstraintFields, ThinkingFields, ContinuingFields):
    """The body of a call; see docs/openai.md."""

    hints: ClassVar[Mapping[str, str]] = {
        **ThinkingFields.hints,
        **ConstraintFields.hints,
        **answer_hints(
            budgets=("max_tokens", "max_completion_tokens"),
            top_logprobs="top_logprobs",
            several="n",
        ),
        "best_of": "use n, or /v1/completions to rank answers",
        "functions": "use tools",
        "function_call": "use tool_choice",
        "logprobs": "set it to true or false, and the number as top_logprobs",
    }

    messages: Annotated[Listed[Turn], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_tokens: Budget | None = None
    max_completion_tokens: Budget | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    tools: Listed[ChatTool] = Field(default_factory=list, max_length=MAX_TOOLS)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool = True
    modalities: Listed[Literal["text"]] | None = None
    """Answers are always text."""
    reasoning_effort: Effort | None = None

    # Ours
    show_schema: bool = False
    """Show the model the answer's schema in a system message."""

    def checked(self) -> ChatRequest:
        """Return the request; raises RequestError if fields contradict each other."""
        if self.top_logprobs is not None and not self.logprobs:
            raise RequestError("top_logprobs needs logprobs", field="top_logprobs")
        if self.stream_options is not None and not self.stream:
            raise RequestError("stream_options needs stream", field="stream_options")
        self._check_budgets()
        self.check_ending()
        if self.tool_choice not in (None, "none") and not self.tools:
            raise RequestError("tool_choice needs tools", field="tool_choice")
        return self

    def _check_budgets(self) -> None:
        budgets = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(budgets) > 1:
            raise RequestError(
                "max_tokens and max_completion_tokens are the same bound, and differ",
                field="max_completion_tokens",
            )

    @property
    def budget(self) -> int | None:
        """The budget of thoughts and answer together, in tokens; ``None`` where none is set."""
        return self.max_completion_tokens or self.max_tokens

    def thinking(self) -> Thinking | None:
        """Return how long the model thinks first; raises RequestError for contradictions."""
        return self.thinking_of(
            self.reasoning_effort,
            self.budget or DEFAULT_BUDGET,
            effort_field="reasoning_effort",
            budget_field=self.budget_field,
        )

    @property
    def budget_field(self) -> str:
        """The name by which the request gives the budget."""
        return "max_completion_tokens" if self.max_completion_tokens else "max_tokens"


def read_chat(body: Body, config: ServerConfig) -> Asked:
    """Return what a call requests; raises RequestError."""
    chat = given(ChatRequest, body).checked()
    wanted = chat.wanted(config, has_tools=bool(chat.tools))
    thinking, options = chat.thinking(), chat.schema_options(config)
    chosen = chosen_of(chat.tool_choice)
    structure = None if wanted is None else wanted.structure
    field = None if wanted is None else wanted.field
    tools = tool_use(chat.tools, chosen, wanted, is_parallel=chat.parallel_tool_calls)
    if tools is not None:
        # An error names the tag, which names the tool.
        field = "tools" if wanted is None else f"tools, or {field}"
    if chat.show_schema and not isinstance(structure, JsonSchema):
        raise RequestError("show_schema needs a schema", field="show_schema")
    came_from: CameFrom = {
        **definition_fields(chat.tools),
        **chat.came_from(
            prompt="messages",
            constraint=field,
            reasoning=None if thinking is None else thinking.field,
            budget=chat.budget_field,
        ),
    }
    with named_as_sent(came_from):
        request = GenerationRequest(
            prompt=described(conversation(chat.messages), wanted),
            constraint=structure,
            tools=filled_tools(tools, options),
            reasoning=None if thinking is None else thinking.reasoning,
            top_logprobs=(chat.top_logprobs or 0) if chat.logprobs else None,
            show_schema=chat.show_schema,
            continue_final_message=chat.continue_final_message,
            heal=chat.heal,
            **chat.common(config, chat.budget, DEFAULT_BUDGET, chat.budget_field),
        )
    custom = custom_names(chat.tools)
    style = ChatStyle(
        reader=partial(reader_of, request, inputs=custom),
        custom=custom,
        is_named=chosen.named is not None,
        is_structured=wanted is not None,
        tells_usage=chat.stream_options is not None and chat.stream_options.include_usage,
        tells_logprobs=chat.logprobs,
        tells_thoughts=thinking is not None,
    )
    return Asked(
        chat.model,
        request,
        partial(ChatForm, style),
        is_streamed=chat.stream,
        came_from=came_from,
    )
