"""Conversations to tokens, so that what somebody says is never taken for a control token.

The template is rendered up to three times. Mostly once: where no message holds a character that a
control token begins or ends with, all such tokens are the template's::

    plain     what the model is to read
    defused   the same where the messages can spell no token: those it has are the template's own
    marked    the same with tokens that messages spell between marks, which says where they stand
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from guided.errors import ModelError, RequestError
from guided.model.control_tokens import ControlTokens
from guided.model.text_encoder import TextEncoder
from guided.spec import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["MOST_TEMPLATE_CHARACTERS", "ChatEncoder"]

MOST_TEMPLATE_CHARACTERS = 2**20
"""Of a chat template; the longest in use have a fiftieth of that."""

Messages: TypeAlias = tuple[Message, ...]

_PROBES: Final = (
    (Message("system", "a"), Message("user", "b"), Message("assistant", "c"), Message("user", "d")),
    (Message("user", "b"), Message("assistant", "c"), Message("user", "d")),
    (Message("user", "b"),),
)
"""Conversations that say nothing; a template may refuse the first of them."""
_SIGN: Final = re.compile(r"[^\w\s]")


class ChatEncoder:
    """Texts and conversations as one model reads them; may be used from several threads."""

    def __init__(self, name: str, tokenizer: PreTrainedTokenizerBase) -> None:
        """``name`` is that of the model, for errors."""
        if not tokenizer.is_fast:
            raise ModelError(
                f"tokenizer {type(tokenizer).__name__} of {name} is slow: what it makes of a text "
                "cannot be held to special tokens",
                hint="choose a model with a fast tokenizer (a tokenizer.json in its folder)",
            )
        self._name = name
        self._tokenizer = tokenizer
        self._control = ControlTokens(self._control_names())
        self._encoder = TextEncoder(tokenizer, self._control)

    def encode_text(
        self, text: str, *, allow_special_tokens: bool, longest: int | None = None
    ) -> list[int]:
        """The tokens of a plain text, with what the tokenizer puts before any.

        Raises LimitExceededError for more than the ``longest`` number of tokens.
        """
        is_free = allow_special_tokens or not self._control.found(text)
        encode = self._encoder.encode if is_free else self._encoder.encode_named
        return encode(text, add_special_tokens=True, longest=longest)

    def encode_messages(
        self,
        messages: Messages,
        rendered: str,
        *,
        allow_special_tokens: bool,
        add_generation_prompt: bool = True,
        longest: int | None = None,
    ) -> list[int]:
        """The tokens of messages that were ``rendered`` to this text.

        Raises LimitExceededError for more than the ``longest`` number of tokens, and RequestError
        where the messages spell a control token that cannot be told from those of the template.
        """
        named = None
        if not allow_special_tokens and any(
            self._control.may_be_spelled(turn.content) for turn in messages
        ):
            named = self._named(messages, rendered, add_generation_prompt=add_generation_prompt)
        # The template has already put in the special tokens.
        if named is None:
            return self._encoder.encode(rendered, longest=longest)
        return self._encoder.encode_named(named, longest=longest)

    def rendered(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        """The messages in the chat template, which must be there, or RequestError."""
        from jinja2 import TemplateError

        self._check_template()
        try:
            # In a sandbox (jinja2's) that lets a template call nothing that is not a text's.
            text = self._tokenizer.apply_chat_template(
                [{"role": turn.role, "content": turn.content} for turn in messages],
                add_generation_prompt=add_generation_prompt,
                tokenize=False,
            )
        except TemplateError as error:
            raise RequestError(
                f"the chat template of {self._name} refuses these messages: {error}",
                field="messages",
            ) from error
        assert isinstance(text, str), f"a rendered template is a {type(text).__name__}"
        return text

    def _named(self, messages: Messages, plain: str, *, add_generation_prompt: bool) -> str | None:
        """The rendered text with control tokens by private names where the template wrote them.

        ``None`` where it has no others.
        """
        control = self._control

        def rendered(change: Callable[[str], str]) -> str:
            changed = tuple(replace(turn, content=change(turn.content)) for turn in messages)
            return self.rendered(changed, add_generation_prompt=add_generation_prompt)

        defused = rendered(control.defused)
        own = control.own(defused)
        if own == control.found(plain) and control.unmarked(defused) == plain:
            return None
        marked = rendered(control.marked)
        if control.own(marked) != own or control.unmarked(marked) != plain:
            spelled = next(
                (name for turn in messages for name in control.found(turn.content)), None
            )
            raise RequestError(
                f"the chat template of {self._name} changes these messages, so that special tokens "
                "which they spell cannot be told from its own",
                field="messages",
                hint=f"leave {spelled or 'parts of special tokens'} out of them, or set "
                "allow_special_tokens",
            )
        return control.named(marked)

    def _control_names(self) -> Iterator[str]:
        """Special tokens, and those of the others that the template puts around any message."""
        added = self._tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
        yield from self._tokenizer.all_special_tokens
        yield from (token.content for token in added if token.special)
        # Letters and spaces alone are what people write.
        others = [token.content for token in added if _SIGN.search(token.content)]
        if written := self._written_by_template():
            yield from (name for name in others if name in written)

    def _written_by_template(self) -> str:
        if self._tokenizer.chat_template is None:
            return ""
        for probe in _PROBES:
            try:
                return self.rendered(probe, add_generation_prompt=False)
            except RequestError:
                continue
        return ""

    def _check_template(self) -> None:
        template = self._tokenizer.chat_template
        if isinstance(template, str) and len(template) > MOST_TEMPLATE_CHARACTERS:
            raise ModelError(
                f"the chat template of {self._name} has {len(template)} characters, above the "
                f"limit of {MOST_TEMPLATE_CHARACTERS}",
                hint="use another template",
            )
