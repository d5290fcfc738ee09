"""Requests of ``POST /v1/responses``: texts and functions; nothing is kept between calls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import MAX_MESSAGES, MAX_TOP_LOGPROBS, GenerationRequest, JsonOptions
from guided.spec.tools import MAX_TOOLS
from guided_service.call_reader import reader_of
from guided_service.config import ServerConfig
from guided_service.defaults import filled_tools
from guided_service.http.asked import Asked
from guided_service.http.chat_answer import ChatStyle
from guided_service.http.chat_request import DEFAULT_BUDGET
from guided_service.http.constraints import (
    JsonObjectFormat,
    TextFormat,
    Wanted,
    check_options,
    schema_of,
)
from guided_service.http.fields import Body, Budget, Given, Listed, Off, given
from guided_service.http.hints import JSON_HINTS, answer_hints
from guided_service.http.messages import described
from guided_service.http.response_answer import ResponseForm
from guided_service.http.response_input import Item, messages_of
from guided_service.http.sent_names import CameFrom, named_as_sent
from guided_service.http.thinking import Effort, Thinking, ThinkingFields
from guided_service.http.tools import (
    ResponseTool,
    ResponseToolChoice,
    chosen_of,
    custom_names,
    definition_fields,
    tool_use,
)
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = ["ResponseRequest", "read_response"]


class SchemaFormat(Given):
    """A JSON document that fits a schema."""

    type: Literal["json_schema"]
    name: Annotated[str, Field(max_length=64)]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    description: str | None = None
    strict: bool | None = None


Format: TypeAlias = Annotated[TextFormat | JsonObjectFormat | SchemaFormat, OneOf("type")]


class TextOptions(Given):
    """The format of the answer's text."""

    format: Format | None = None
    verbosity: Literal["medium"] | None = None
    """OpenAI's default."""


class ReasoningOptions(Given):
    """Thoughts before the answer."""

    effort: Effort | None = None
    summary: Literal["auto", "detailed"] | None = None
    """The thoughts serve as their own summary: nothing here writes a shorter one."""


class StreamOptions(Given):
    """What a stream contains in addition."""

    include_obfuscation: Off | None = None
    """No padding is added to hide the length of tokens."""


_CONTINUING: Final = ("add_generation_prompt", "continue_final_message", "heal")
_ENCRYPTED: Final = "reasoning.encrypted_content"
"""Allowed without thoughts, where it is empty."""

Items: TypeAlias = Annotated[Listed[Item], Field(min_length=1, max_length=MAX_MESSAGES)]


class ResponseRequest(ThinkingFields):
    """The body of a call; see docs/openai.md."""

    hints: ClassVar[Mapping[str, str]] = {
        **ThinkingFields.hints,
        **JSON_HINTS,
        **answer_hints(budgets=("max_output_tokens",), top_logprobs="top_logprobs", several=None),
        "chat_template_kwargs.reasoning_effort": "use reasoning.effort",
        "conversation": "send what was said as input",
        "messages": "use input, or send them to /v1/chat/completions",
        "previous_response_id": "send what was said as input; nothing is kept between calls",
        **dict.fromkeys(_CONTINUING, "use /v1/chat/completions to continue a message"),
        "reasoning_effort": "use reasoning.effort",
        "response_format": "use text.format",
    }

    n: Annotated[int, Field(ge=1, le=1)] = 1
    input: Annotated[str | Items, OneOfKinds()]
    instructions: str | None = None
    max_output_tokens: Budget | None = None
    text: TextOptions | None = None
    tools: Listed[ResponseTool] = Field(default_factory=list, max_length=MAX_TOOLS)
    tool_choice: ResponseToolChoice | None = None
    parallel_tool_calls: bool = True
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    include: Listed[Literal["message.output_text.logprobs", "reasoning.encrypted_content"]] = Field(
        default_factory=list
    )
    stream_options: StreamOptions | None = None
    truncation: Literal["disabled"] | None = None
    """A prompt that is too long is an error."""
    background: Off | None = None
    reasoning: ReasoningOptions | None = None

    def checked(self) -> ResponseRequest:
        """Return the request; raises RequestError if fields contradict each other."""
        if self.stream_options is not None and not self.stream:
            raise RequestError("stream_options needs stream", field="stream_options")
        thinking = self.thinking()
        if thinking is not None and not thinking.reasoning.is_off and _ENCRYPTED in self.include:
            field = f"include[{self.include.index(_ENCRYPTED)}]"
            raise RequestError(
                f"{field} is {_ENCRYPTED!r}, but thoughts are not encrypted here",
                field=field,
                hint="leave it out, and send items of thoughts back as they are",
            )
        return self

    @property
    def is_summarized(self) -> bool:
        """Whether the thoughts also serve as their summary."""
        return self.reasoning is not None and self.reasoning.summary is not None

    def thinking(self) -> Thinking | None:
        """Return how long the model thinks first; raises RequestError for contradictions."""
        thinking = self.thinking_of(
            None if self.reasoning is None else self.reasoning.effort,
            self.max_output_tokens or DEFAULT_BUDGET,
            effort_field="reasoning.effort",
            budget_field="max_output_tokens",
        )
        if thinking is None and self.is_summarized:
            # OpenAI's models think by default; here thoughts exist only if they are requested.
            raise RequestError(
                "reasoning.summary asks for thoughts, but nothing lets the model think",
                field="reasoning.summary",
                hint="set reasoning.effort or max_reasoning_tokens, or leave it out",
            )
        return thinking

    def wanted(self, config: ServerConfig) -> Wanted | None:
        """Return the constraint of the answer's text, and the field that it came from."""
        wanted = self._wanted(self.schema_options(config))
        check_options(self.json_options, wanted, has_tools=bool(self.tools))
        return wanted

    def _wanted(self, options: JsonOptions) -> Wanted | None:
        match None if self.text is None else self.text.format:
            case JsonObjectFormat() as form:
                return form.wanted("text.format", options)
            case SchemaFormat() as named:
                structure = schema_of(named.schema_, options, strict=named.strict)
                return Wanted(structure, "text.format.schema", named.description or "")
        return None


_REPEATED: Final = {
    "frequency_penalty",
    "instructions",
    "max_output_tokens",
    "presence_penalty",
    "prompt_cache_key",
    "safety_identifier",
    "temperature",
    "user",
}
"""Fields that a response repeats as given."""


def read_response(body: Body, config: ServerConfig) -> Asked:
    """Return what a call requests; raises RequestError."""
    asked = given(ResponseRequest, body).checked()
    wanted, choice, thinking = asked.wanted(config), chosen_of(asked.tool_choice), asked.thinking()
    structure = None if wanted is None else wanted.structure
    field = None if wanted is None else wanted.field
    tools = tool_use(asked.tools, choice, wanted, is_parallel=asked.parallel_tool_calls)
    if tools is not None:
        field = "tools" if wanted is None else f"tools, or {field}"
    elif asked.tool_choice not in (None, "none", "auto"):
        raise RequestError("tool_choice needs tools", field="tool_choice")
    tells_logprobs = (
        asked.top_logprobs is not None or "message.output_text.logprobs" in asked.include
    )
    came_from: CameFrom = {
        **definition_fields(asked.tools),
        **asked.came_from(
            prompt="input",
            constraint=field,
            reasoning=None if thinking is None else thinking.field,
            budget="max_output_tokens",
        ),
    }
    with named_as_sent(came_from):
        request = GenerationRequest(
            prompt=described(messages_of(asked.input, asked.instructions), wanted),
            constraint=structure,
            tools=filled_tools(tools, asked.schema_options(config)),
            reasoning=None if thinking is None else thinking.reasoning,
            top_logprobs=(asked.top_logprobs or 0) if tells_logprobs else None,
            **asked.common(config, asked.max_output_tokens, DEFAULT_BUDGET, "max_output_tokens"),
        )
    custom = custom_names(asked.tools)
    style = ChatStyle(
        reader=partial(reader_of, request, inputs=custom),
        custom=custom,
        is_named=choice.named is not None,
        is_structured=wanted is not None,
        tells_usage=True,
        tells_logprobs=tells_logprobs,
    )
    return Asked(
        asked.model,
        request,
        partial(ResponseForm, style, _repeated(asked), is_summarized=asked.is_summarized),
        is_streamed=asked.stream,
        came_from=came_from,
    )


def _repeated(asked: ResponseRequest) -> dict[str, Any]:
    """Return the fields of the request that its response repeats."""
    said = asked.model_dump(include=_REPEATED)
    choice = asked.tool_choice
    return {
        **said,
        "background": False,
        "max_tool_calls": None,
        "metadata": asked.metadata or {},
        "parallel_tool_calls": asked.parallel_tool_calls,
        "previous_response_id": None,
        "reasoning": (asked.reasoning or ReasoningOptions()).model_dump(),
        "service_tier": "default",
        "store": False,
        "text": {"format": _format(asked)},
        "tool_choice": choice.model_dump() if isinstance(choice, Given) else choice or "auto",
        "tools": [tool.model_dump() for tool in asked.tools],
        "top_logprobs": asked.top_logprobs or 0,
        "top_p": 1.0 if asked.top_p is None else asked.top_p,
        "truncation": "disabled",
    }


def _format(asked: ResponseRequest) -> dict[str, Any]:
    match None if asked.text is None else asked.text.format:
        case None:
            return {"type": "text"}
        case SchemaFormat() as form:
            return form.model_dump(by_alias=True) | {"strict": form.strict is not False}
        case form:
            return form.model_dump(by_alias=True, exclude_none=True)
