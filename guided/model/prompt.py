"""Turns a prompt into the tokens that the model reads before its answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from guided.errors import RequestError
from guided.model.chat_encoder import ChatEncoder
from guided.model.turns import Ending
from guided.model.untemplated_tools import without_tools
from guided.spec import EnginePrompt, Message, TokenId, TokenPrompt, Tool
from guided.spec.tool_format import HERMES, ToolFormat

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from guided.model.load import ModelTexts
    from guided.spec.prompt_bound import PromptBound

__all__ = ["encoder_of", "render_prompt", "tool_format"]


def render_prompt(
    model: ModelTexts,
    prompt: EnginePrompt,
    schema: str | None = None,
    allow_special_tokens: bool | None = None,
    tools: tuple[Tool, ...] = (),
    continues: bool = False,
    *,
    thinks: bool | None = None,
    bound: PromptBound | None = None,
) -> tuple[TokenId, ...]:
    """Return the tokens of a plain text, or of messages in the model's chat template; tokens as
    they are.

    Plain text gets the tokenizer's usual prefix, such as a beginning-of-sequence token. A schema is
    shown in the system message, or in the first user message if the template has no system role.
    ``allow_special_tokens`` is the request's option of that name. ``tools`` are described by the
    template if it supports tools, else by words of ours; RequestError if it writes calls in a
    format that is unknown here. ``continues`` ends the prompt inside of the last message.
    ``thinks`` tells a template with a switch whether the model thinks before its answer. ``bound``
    refuses messages that are too long before they are tokenised, as rendered with calls, tools and
    a schema. May be called from any thread.
    """
    if isinstance(prompt, TokenPrompt):
        return prompt.read_by(len(model.vocabulary))
    encoder, longest = encoder_of(model, thinks=thinks), model.context_window
    if isinstance(prompt, str):
        if schema is not None:
            raise RequestError("a schema can only be shown with messages", field="show_schema")
        allowed = allow_special_tokens is not False
        return _ids(encoder.encode_text(prompt, allow_special_tokens=allowed, longest=longest))
    if not model.has_chat_template:
        raise RequestError(
            f"{model.name} has no chat template, so it takes no messages",
            field="messages",
            hint="pass a plain prompt, or use a model with a chat template",
        )
    messages = prompt if schema is None else _with_schema(prompt, schema)
    if encoder.tool_format is None:
        if tools:
            encoder.check_tools()
        messages, tools = without_tools(messages, tools), ()
    ending = Ending.INSIDE if continues else Ending.NEXT_TURN
    messages, text = _render_messages(encoder, model, messages, tools, ending)
    if bound is not None:
        bound.check(text)
    allowed = bool(allow_special_tokens)
    return _ids(
        encoder.encode_messages(
            messages, text, tools, allow_special_tokens=allowed, ending=ending, longest=longest
        )
    )


def tool_format(model: ModelTexts) -> ToolFormat:
    """Return how a model writes tool calls: as its chat template does, else as it is told to."""
    return encoder_of(model).tool_format or HERMES


def encoder_of(model: ModelTexts, *, thinks: bool | None = None) -> ChatEncoder:
    """Return the encoder of texts for a model, made once."""
    return _encoder(model.name, model.tokenizer, thinks)


@lru_cache(maxsize=8)
def _encoder(name: str, tokenizer: PreTrainedTokenizerBase, thinks: bool | None) -> ChatEncoder:
    return ChatEncoder(name, tokenizer, thinks=thinks)


def _ids(tokens: list[int]) -> tuple[TokenId, ...]:
    return tuple(map(TokenId, tokens))


def _with_schema(messages: tuple[Message, ...], schema: str) -> tuple[Message, ...]:
    note = f"Answer with JSON that fits this schema:\n{schema}"
    if messages[0].role in ("system", "developer"):
        first = replace(messages[0], content=f"{messages[0].content}\n\n{note}")
        return (first, *messages[1:])
    return (Message("system", note), *messages)


def _render_messages(
    encoder: ChatEncoder,
    model: ModelTexts,
    messages: tuple[Message, ...],
    tools: tuple[Tool, ...],
    ending: Ending,
) -> tuple[tuple[Message, ...], str]:
    """Render the messages; a system message joins the user's if the template has no such role."""
    if messages[0].role not in ("system", "developer"):
        return messages, encoder.render(messages, tools, ending)
    system = messages[0].content.strip()
    try:
        if system in (text := encoder.render(messages, tools, ending)):
            return messages, text
    except RequestError:
        # A template without a system role refuses the message or leaves it out. If it shows the
        # same turns as over, what it does not take is that the last one goes on.
        if ending is Ending.INSIDE and _renders(encoder, messages, tools):
            raise
    joined = _system_in_user(model, messages)
    text = encoder.render(joined, tools, ending)
    if system not in text:
        raise RequestError(
            f"the chat template of {model.name} leaves out the system message", field="messages"
        )
    return joined, text


def _renders(encoder: ChatEncoder, messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> bool:
    """Whether the template takes a conversation whose last turn is over."""
    with suppress(RequestError):
        encoder.render(messages, tools, Ending.LAST_TURN)
        return True
    return False


def _system_in_user(model: ModelTexts, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Turn [system S, user U, ...] into [user "S, blank line, U", ...]."""
    system, *others = messages
    if not others or others[0].role != "user":
        raise RequestError(
            f"the chat template of {model.name} takes no system message, and no message of the "
            "user follows that could carry it",
            field="messages",
            hint="add a message with role 'user' after the system message",
        )
    first = replace(others[0], content=f"{system.content}\n\n{others[0].content}")
    return (first, *others[1:])
