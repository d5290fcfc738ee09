"""From a prompt to the tokens that the model reads before its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from guided.errors import RequestError
from guided.spec import Message, TokenId

if TYPE_CHECKING:
    from guided.model.load import ModelTexts

__all__ = ["render_prompt"]


def render_prompt(
    model: ModelTexts, prompt: str | tuple[Message, ...], schema: str | None = None
) -> tuple[TokenId, ...]:
    """The tokens of a plain text, or of messages in the model's chat template.

    Plain text gets what the tokenizer puts before any text, such as a beginning-of-sequence token.
    A schema is shown in the system message, or in the first of the user's where the template knows
    no system.
    """
    if isinstance(prompt, str):
        if schema is not None:
            raise RequestError("a schema can only be shown with messages", field="show_schema")
        return tuple(map(TokenId, model.tokenizer.encode(prompt)))
    if not model.has_chat_template:
        raise RequestError(
            f"{model.name} has no chat template, so it takes no messages",
            field="messages",
            hint="pass a plain prompt, or use a model with a chat template",
        )
    text = _apply_template(model, prompt if schema is None else _with_schema(prompt, schema))
    # The template has already put in the special tokens.
    return tuple(map(TokenId, model.tokenizer.encode(text, add_special_tokens=False)))


def _with_schema(messages: tuple[Message, ...], schema: str) -> tuple[Message, ...]:
    note = f"Answer with JSON that fits this schema:\n{schema}"
    if messages[0].role == "system":
        first = replace(messages[0], content=f"{messages[0].content}\n\n{note}")
        return (first, *messages[1:])
    return (Message("system", note), *messages)


def _apply_template(model: ModelTexts, messages: tuple[Message, ...]) -> str:
    from jinja2 import TemplateError

    system = messages[0].content.strip() if messages[0].role == "system" else None
    try:
        text = _rendered(model, messages)
    except TemplateError as error:
        if system is None:
            raise _refused(model, error) from error
        text = ""
    if system is None or system in text:
        return text
    # A template that knows no system message has refused it or left it out.
    try:
        text = _rendered(model, _system_in_user(model, messages))
    except TemplateError as error:
        raise _refused(model, error) from error
    if system not in text:
        raise RequestError(
            f"the chat template of {model.name} leaves out the system message", field="messages"
        )
    return text


def _rendered(model: ModelTexts, messages: tuple[Message, ...]) -> str:
    text = model.tokenizer.apply_chat_template(
        [{"role": message.role, "content": message.content} for message in messages],
        add_generation_prompt=True,
        tokenize=False,
    )
    assert isinstance(text, str), f"a rendered template is a {type(text).__name__}"
    return text


def _system_in_user(model: ModelTexts, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """[system S, user U, ...] -> [user "S, blank line, U", ...]."""
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


def _refused(model: ModelTexts, error: Exception) -> RequestError:
    return RequestError(
        f"the chat template of {model.name} refuses these messages: {error}", field="messages"
    )
