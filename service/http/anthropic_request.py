"""Requests of ``POST /v1/messages`` and ``POST /v1/messages/count_tokens``."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import MAX_STOPS, GenerationRequest, JsonOptions, JsonSchema
from guided_service.call_reader import reader_of
from guided_service.config import ServerConfig
from guided_service.http.anthropic_answer import AnthropicForm
from guided_service.http.anthropic_prompt import PromptFields
from guided_service.http.anthropic_tools import tools_of
from guided_service.http.asked import Asked
from guided_service.http.chat_answer import ChatStyle
from guided_service.http.constraints import StructuredOutputs, check_options
from guided_service.http.fields import Body, Budget, Given, SharedFields, given
from guided_service.http.sent_names import CameFrom, named_as_sent
from guided_service.http.token_requests import Prompted
from guided_service.http.tools import definition_fields

__all__ = ["CountRequest", "MessageRequest", "read_count", "read_message"]

_ANY_BUDGET: Final = 2**31 - 1
"""Stands for the budget of an answer in a call that counts the tokens of its prompt."""


StopSequences: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1)]], Field(max_length=MAX_STOPS)
]


class Metadata(Given):
    """About the caller."""

    user_id: str | None = None
    """Ignored: the token identifies the caller."""


class MessageRequest(PromptFields, SharedFields):
    """The body of a call for an answer; see docs/anthropic.md."""

    stop_field: ClassVar[str] = "stop_sequences"

    max_tokens: Budget
    stop_sequences: StopSequences = Field(default_factory=list)

    # vLLM's
    structured_outputs: StructuredOutputs | None = None
    """Constraints other than schemas."""

    # Ours
    show_schema: bool = False
    """Show the model the answer's schema in a system message."""

    # Fields that change nothing here
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    """Ignored: there is one tier."""


class CountRequest(PromptFields):
    """The body of a call for the number of a prompt's tokens."""

    model: str


def read_message(body: Body, config: ServerConfig) -> Asked:
    """Return what a call requests; raises RequestError."""
    asked = given(MessageRequest, body)
    options, outputs = asked.schema_options(config), asked.structured_outputs
    others = () if outputs is None else (outputs.wanted(options),)
    prompt = asked.prompt(options, asked.max_tokens, others)
    check_options(asked.json_options, prompt.wanted, has_tools=bool(asked.tools))
    is_schema = prompt.wanted is not None and isinstance(prompt.wanted.structure, JsonSchema)
    if asked.show_schema and not is_schema:
        raise RequestError("show_schema needs a schema", field="show_schema")
    came_from: CameFrom = {
        **definition_fields(tools_of(asked.tools)),
        **asked.came_from(
            prompt="messages", constraint=prompt.constraint_field, reasoning="thinking"
        ),
    }
    with named_as_sent(came_from):
        request = GenerationRequest(
            **prompt.options(),
            # A bound that every call has to tell is no promise: what the context leaves will do.
            **asked.common(config, None, asked.max_tokens),
            show_schema=asked.show_schema,
        )
    style = ChatStyle(
        reader=partial(reader_of, request),
        is_named=prompt.tools is not None and prompt.tools.names_one_tool,
        is_structured=prompt.wanted is not None,
        tells_usage=True,
        tells_logprobs=False,
    )
    return Asked(
        asked.model,
        request,
        partial(AnthropicForm, style, asked.max_tokens),
        is_streamed=asked.stream,
        came_from=came_from,
        thinks_if_able=prompt.is_adaptive,
        thoughts_fault=prompt.fault,
    )


def read_count(body: Body) -> Prompted:
    """Return the prompt whose tokens a call counts; raises RequestError."""
    asked = given(CountRequest, body)
    prompt = asked.prompt(JsonOptions(), _ANY_BUDGET)
    return Prompted(
        asked.model,
        GenerationRequest(**prompt.options(), default_max_tokens=_ANY_BUDGET),
        texts=False,
        came_from={"prompt": "messages", "reasoning": "thinking"},
        thinks_if_able=prompt.is_adaptive,
        thoughts_fault=prompt.fault,
    )
