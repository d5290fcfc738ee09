"""Turns conversations into tokens, so that a message's text never becomes a control token.

The template is rendered up to three times. Mostly once: if no message holds a character that a
control token begins or ends with, all control tokens are the template's::

    plain     what the model is to read
    defused   the same with messages that spell no token: all tokens are the template's own
    marked    the same with marks around the tokens that messages spell, which shows their places
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from guided.errors import ModelError, RequestError
from guided.model.control_tokens import ControlTokens
from guided.model.template_tools import (
    PROBE,
    PROBE_ARGUMENTS_IN_PYTHON,
    PROBE_TOOL,
    knows_tools,
    render_with_tools,
    template_format,
)
from guided.model.text_encoder import TextEncoder
from guided.model.turns import (
    Ending,
    change_texts,
    change_thoughts,
    changed_content,
    end_in_content,
    texts_in,
    turn_of,
)
from guided.model.untemplated_tools import describe_tool
from guided.spec import Message, Tool
from guided.spec.thoughts import FORMATS as REASONING_FORMATS
from guided.spec.thoughts import ReasoningFormat
from guided.spec.tool_format import FORMATS as TOOL_FORMATS
from guided.spec.tool_format import ToolFormat

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["MOST_TEMPLATE_CHARACTERS", "ChatEncoder"]

MOST_TEMPLATE_CHARACTERS = 2**20
"""The most characters of a chat template; the longest in use have a fiftieth of that."""

Messages: TypeAlias = tuple[Message, ...]
Tools: TypeAlias = tuple[Tool, ...]
_Change: TypeAlias = Callable[[str], str]

_PROBES: Final = (
    (Message("system", "a"), Message("user", "b"), Message("assistant", "c"), Message("user", "d")),
    (Message("user", "b"), Message("assistant", "c"), Message("user", "d")),
    (Message("user", "b"),),
)
"""Conversations without content; a template may refuse the first of them."""
_THOUGHTFUL: Final = (Message("user", "b"), Message("assistant", "c", reasoning="e"))
"""A turn with thoughts, after the last message of the user."""
_THINKING: Final = ("enable_thinking", "thinking")
"""The template variables: those of Qwen, SmolLM and most others, and of DeepSeek and Granite."""
_SIGN: Final = re.compile(r"[^\w\s]")


class ChatEncoder:
    """Texts and conversations as one model reads them; may be used from several threads."""

    def __init__(
        self, name: str, tokenizer: PreTrainedTokenizerBase, *, thinks: bool | None = None
    ) -> None:
        """``name`` is that of the model, for errors; ``thinks`` tells a template with a switch
        whether the model thinks before it answers, ``None`` leaves it to the template.
        """
        if not tokenizer.is_fast:
            raise ModelError(
                f"tokenizer {type(tokenizer).__name__} of {name} is slow: what it makes of a text "
                "cannot be held to special tokens",
                hint="choose a model with a fast tokenizer (a tokenizer.json in its folder)",
            )
        self._name = name
        self._thinks: dict[str, Any] = {} if thinks is None else dict.fromkeys(_THINKING, thinks)
        self._tokenizer = tokenizer
        self._control = ControlTokens(self._control_names())
        self._encoder = TextEncoder(tokenizer, self._control)

    def encode_text(
        self, text: str, *, allow_special_tokens: bool, longest: int | None = None
    ) -> list[int]:
        """Return the tokens of a plain text, with the tokenizer's usual prefix.

        Raises LimitExceededError for more than the ``longest`` number of tokens.
        """
        is_free = allow_special_tokens or not self._control.find(text)
        encode = self._encoder.encode if is_free else self._encoder.encode_named
        return encode(text, add_special_tokens=True, longest=longest)

    def encode_messages(
        self,
        messages: Messages,
        rendered: str,
        tools: Tools = (),
        *,
        allow_special_tokens: bool,
        ending: Ending = Ending.NEXT_TURN,
        longest: int | None = None,
    ) -> list[int]:
        """Return the tokens of messages that were ``rendered`` to this text.

        Raises LimitExceededError for more than the ``longest`` number of tokens, and RequestError
        if messages spell a control token that cannot be told apart from the template's.
        """
        named = None
        if not allow_special_tokens and any(
            map(self._control.may_be_spelled, texts_in(messages, tools))
        ):
            named = self._rename_control_tokens(messages, rendered, tools, ending)
        # The template has already put in the special tokens.
        if named is None:
            return self._encoder.encode(rendered, longest=longest)
        return self._encoder.encode_named(named, longest=longest)

    def encode_written(self, text: str) -> list[int]:
        """Return the tokens of text as a template could write it, special tokens included."""
        return self._encoder.encode(text)

    @cached_property
    def reasoning_format(self) -> ReasoningFormat | None:
        """How thoughts before an answer are written, which the template's own text shows."""
        template = self._tokenizer.chat_template
        texts = template.values() if isinstance(template, dict) else (template or "",)
        for form in REASONING_FORMATS:
            if any(form.template_marker in text for text in texts):
                return form
        return None

    @cached_property
    def tool_format(self) -> ToolFormat | None:
        """How the template writes tool calls; ``None`` if it takes no tools."""
        if self._tokenizer.chat_template is None:
            return None
        added = self._tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
        return template_format(self.render, {token.content for token in added})

    def check_tools(self) -> None:
        """Raise RequestError if the template writes calls in none of our formats."""
        if self._writes_calls_otherwise:
            raise RequestError(
                f"the chat template of {self._name} writes calls of tools in a format that is none "
                f"of {', '.join(sorted(TOOL_FORMATS))}",
                field="tools",
                hint="leave tools out, and ask for the arguments as an answer of their schema",
            )

    @cached_property
    def _writes_calls_otherwise(self) -> bool:
        has_template = self._tokenizer.chat_template is not None
        return has_template and self.tool_format is None and knows_tools(self.render)

    def render(
        self, messages: Messages, tools: Tools = (), ending: Ending = Ending.NEXT_TURN
    ) -> str:
        """Render the messages with the chat template; RequestError if there is none."""
        described = [describe_tool(tool) for tool in tools]
        return self._render_turns(self._turns(messages), described, ending)

    def _turns(self, messages: Messages) -> list[dict[str, Any]]:
        """Return messages as the template takes them."""
        as_text = any(turn.tool_calls for turn in messages) and self._takes_arguments_as_text
        return [turn_of(turn, arguments_as_text=as_text) for turn in messages]

    @cached_property
    def _takes_arguments_as_text(self) -> bool:
        """Whether the template takes arguments of calls as JSON text alone.

        Some of DeepSeek's do, which join them to other texts: an object is then refused, or written
        as Python writes it.
        """
        for as_text in (False, True):
            turns = [turn_of(turn, arguments_as_text=as_text) for turn in PROBE]
            with suppress(RequestError):
                text = self._render_turns(turns, [describe_tool(PROBE_TOOL)], Ending.NEXT_TURN)
                if as_text or PROBE_ARGUMENTS_IN_PYTHON not in text:
                    return as_text
        return False

    def _render_turns(
        self, turns: list[dict[str, Any]], tools: list[dict[str, Any]], ending: Ending
    ) -> str:
        """Render a conversation with the chat template; RequestError if the template raises.

        Raises ImportError and MemoryError as they come: they are no fault of the messages.
        """
        self._check_template()
        try:
            # In a sandbox (jinja2's) that lets a template call only methods of texts.
            text = self._tokenizer.apply_chat_template(
                turns,
                tools=tools or None,  # type: ignore[arg-type] # schemas are dicts, too
                add_generation_prompt=ending is Ending.NEXT_TURN,
                continue_final_message=ending is Ending.INSIDE,
                tokenize=False,
                **self._thinks,
            )
        # What this server lacks: a package that templates need, or memory.
        except (ImportError, MemoryError):
            raise
        # A template raises TemplateError to refuse messages, and anything else where it was not
        # written for what they or the tools contain.
        except Exception as error:
            if ending is Ending.INSIDE and isinstance(error, ValueError):
                # Of transformers, which does not find the last message in what was rendered.
                raise changed_content() from error
            raise RequestError(
                f"the chat template of {self._name} refuses these messages: {error}",
                field="messages",
            ) from error
        assert isinstance(text, str), f"a rendered template is a {type(text).__name__}"
        return end_in_content(text, turns[-1]["content"]) if ending is Ending.INSIDE else text

    def _rename_control_tokens(
        self, messages: Messages, plain: str, tools: Tools, ending: Ending
    ) -> str | None:
        """Return the rendered text with private names for control tokens of the template.

        ``None`` if all its control tokens are the template's.
        """
        control = self._control

        def render_changed(change: _Change, of_thoughts: _Change) -> str:
            of_model = self._spare_thought_signs(change)
            turns = [
                change_thoughts(change_texts(turn, of_model if spares else change), of_thoughts)
                for turn, spares in zip(
                    self._turns(messages), map(_may_hold_thoughts, messages), strict=True
                )
            ]
            described = [change_texts(describe_tool(tool), change) for tool in tools]
            return self._render_turns(turns, described, ending)

        defused = render_changed(control.defuse, control.defuse)
        own = control.find_own(defused)
        if own == control.find(plain) and control.unmark(defused) == plain:
            return None
        marked = render_changed(control.mark, control.mark)
        marked_own = control.find_own(marked)
        is_same = self._remove_thought_names(marked_own) == self._remove_thought_names(own)
        if any(control.may_be_spelled(turn.reasoning) for turn in messages):
            # Thoughts may spell their own end, which a template must not take for it.
            hidden = render_changed(control.mark, control.defuse)
            is_same &= control.find_own(hidden) == marked_own and control.unmark(hidden) == plain
        if not is_same or control.unmark(marked) != plain:
            spelled = next(
                (name for text in texts_in(messages, tools) for name in control.find(text)), None
            )
            raise RequestError(
                f"the chat template of {self._name} changes these messages, so that special tokens "
                "which they spell cannot be told from its own",
                field="messages",
                hint=f"leave {spelled or 'parts of special tokens'} out of them, or set "
                "allow_special_tokens",
            )
        return control.rename_own(marked)

    def _control_names(self) -> Iterator[str]:
        """Yield special tokens, and other tokens that the template puts around messages."""
        added = self._tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
        yield from self._tokenizer.all_special_tokens
        yield from (token.content for token in added if token.special)
        # People write names of letters and spaces alone.
        others = [token.content for token in added if _SIGN.search(token.content)]
        written = self._find_template_text()
        yield from (name for name in others if name in written or name in self._thought_names)

    @cached_property
    def _thought_names(self) -> frozenset[str]:
        """The tokens that stand around thoughts, marked as special or not."""
        if (form := self.reasoning_format) is None:
            return frozenset()
        signs = f"{form.begin}\n{form.end}\n{form.answer}"
        added = self._tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
        return frozenset(
            token.content
            for token in added
            if _SIGN.search(token.content) and token.content in signs
        )

    def _remove_thought_names(self, names: list[str]) -> list[str]:
        """Remove the tokens around thoughts from names: templates put these where a turn begins
        with certain texts, which a defused turn does not have.
        """
        return [name for name in names if name not in self._thought_names]

    def _spare_thought_signs(self, change: _Change) -> _Change:
        """Make a change of the model's own messages that leaves the signs of its thoughts alone.

        Templates look for the signs, to take the thoughts out; and whoever supplies the model's
        messages may supply its thoughts.
        """
        if not self._thought_names:
            return change
        sign = re.compile(f"({'|'.join(map(re.escape, sorted(self._thought_names)))})")

        def beside(text: str) -> str:
            parts = sign.split(text)
            return "".join(part if at % 2 else change(part) for at, part in enumerate(parts))

        return beside

    def _find_template_text(self) -> str:
        """Return what the template writes around messages, around thoughts, and around tools if it
        takes them.
        """
        if self._tokenizer.chat_template is None:
            return ""
        written = "" if self.tool_format is None else render_with_tools(self.render)
        with suppress(RequestError):
            written += self.render(_THOUGHTFUL, ending=Ending.LAST_TURN)
        for probe in _PROBES:
            with suppress(RequestError):
                return written + self.render(probe, ending=Ending.LAST_TURN)
        return written

    def _check_template(self) -> None:
        """Raise ModelError for a template so long that parsing it could stall the server."""
        template = self._tokenizer.chat_template
        if isinstance(template, str) and len(template) > MOST_TEMPLATE_CHARACTERS:
            raise ModelError(
                f"the chat template of {self._name} has {len(template)} characters, above the "
                f"limit of {MOST_TEMPLATE_CHARACTERS}",
                hint="use another template",
            )


def _may_hold_thoughts(turn: Message) -> bool:
    """Whether the content of a turn may have thoughts in it, which are not given apart."""
    return turn.role == "assistant" and not turn.reasoning
