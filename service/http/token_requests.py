"""Requests of ``POST /tokenize`` and ``POST /detokenize``, in vLLM's forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from guided.errors import RequestError
from guided.spec import MAX_MESSAGES, GenerationRequest
from guided.spec.tools import MAX_TOOLS
from guided_service.http.continuing import ContinuingFields
from guided_service.http.fields import Body, Given, Listed, Off, On, TokenIdField, given
from guided_service.http.messages import Turn, conversation
from guided_service.http.sent_names import CameFrom, named_as_sent
from guided_service.http.tools import ChatTool, Chosen, tool_use

__all__ = ["DetokenizeRequest", "Prompted", "read_prompted"]

_AS_ANSWERS: Final = (
    "leave it out: a text is tokenised as for an answer, with the prefix of the tokenizer"
)


class _TokenizeRequest(Given):
    """What both forms have."""

    model: str | None = None
    return_token_strs: bool = False


class TokenizeTextRequest(_TokenizeRequest):
    """The body of a call with a plain text, as for completions."""

    hints: ClassVar[Mapping[str, str]] = {"add_special_tokens": _AS_ANSWERS}

    prompt: str
    add_special_tokens: On | None = None
    """A plain text always gets the tokenizer's usual prefix."""
    heal: bool | None = None
    """As in completions."""


class TokenizeChatRequest(_TokenizeRequest, ContinuingFields):
    """The body of a call with a conversation, as for chat completions."""

    hints: ClassVar[Mapping[str, str]] = {"prompt": "send either prompt or messages"}

    messages: Annotated[Listed[Turn], Field(min_length=1, max_length=MAX_MESSAGES)]
    tools: Listed[ChatTool] = Field(default_factory=list, max_length=MAX_TOOLS)
    add_special_tokens: Off | None = None
    """The chat template writes them."""


class DetokenizeRequest(Given):
    """The body of a call with tokens."""

    model: str | None = None
    tokens: Listed[TokenIdField]


@dataclass(frozen=True, slots=True)
class Prompted:
    """What a call for the tokens of a prompt requests."""

    model: str | None
    """The model's name as the caller gave it, if it did."""
    request: GenerationRequest
    texts: bool
    """Whether the text of each token is requested as well."""
    came_from: CameFrom
    """The fields of the body that those of the request came from, for errors."""
    thinks_if_able: bool = False
    """Whether a model without thoughts just answers."""
    thoughts_fault: RequestError | None = None
    """The error for a model with thoughts, if only one without can answer."""


def read_prompted(body: Body) -> Prompted:
    """Return what a call for the tokens of a prompt requests; raises RequestError."""
    if body.get("messages") is None:
        text = given(TokenizeTextRequest, body)
        request = GenerationRequest(prompt=text.prompt, heal=text.heal)
        return Prompted(text.model, request, text.return_token_strs, {})
    chat = given(TokenizeChatRequest, body)
    chat.check_ending()
    tools = tool_use(chat.tools, Chosen(), None, is_parallel=True)
    came_from: CameFrom = {"prompt": "messages"}
    with named_as_sent(came_from):
        request = GenerationRequest(
            prompt=conversation(chat.messages),
            tools=tools,
            continue_final_message=chat.continue_final_message,
            heal=chat.heal,
        )
    return Prompted(chat.model, request, chat.return_token_strs, came_from)
