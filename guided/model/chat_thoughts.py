"""Thoughts before answers, in the format of the model's chat template or of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.errors import RequestError
from guided.model.prompt import encoder_of, render_prompt
from guided.spec import EnginePrompt, Reasoning, TokenId, Tool
from guided.spec.composition import Text
from guided.spec.special_token import SpecialToken
from guided.spec.thoughts import FORMATS, split_at_tokens

if TYPE_CHECKING:
    from guided.model.load import ModelTexts
    from guided.spec.prompt_bound import PromptBound

__all__ = ["ChatThoughts"]


class ChatThoughts:
    """Prompts after which a model thinks first; may be used from several threads.

    ``bound`` is as in ``render_prompt``.
    """

    def __init__(self, model: ModelTexts, bound: PromptBound | None = None) -> None:
        self._model = model
        self._bound = bound

    def render(
        self,
        prompt: EnginePrompt,
        schema: str | None,
        allow_special_tokens: bool | None,
        tools: tuple[Tool, ...],
        continues: bool = False,
        *,
        thinks: bool = True,
    ) -> tuple[TokenId, ...]:
        """Return the tokens of a prompt; a template with a switch is told whether to think."""
        return render_prompt(
            self._model,
            prompt,
            schema,
            allow_special_tokens,
            tools,
            continues,
            thinks=thinks,
            bound=self._bound,
        )

    @property
    def has_format(self) -> bool:
        """Whether the chat template has thoughts."""
        return encoder_of(self._model).reasoning_format is not None

    def answers_at_once(self, tokens: tuple[TokenId, ...]) -> bool:
        """Whether a prompt without thoughts is answered at once, with no thoughts to end first."""
        form = encoder_of(self._model).reasoning_format
        if form is None or form.answer or form.is_opt_in:
            return True
        end = form.end.rstrip()
        return any(self._ends(tokens, written) for written in (form.end, f"{end}\n", end))

    def end_thoughts(self, tokens: tuple[TokenId, ...]) -> tuple[TokenId, ...]:
        """Return a prompt followed by the end of the thoughts that its template has begun."""
        form = encoder_of(self._model).reasoning_format
        if form is None or not self._begins_thoughts(tokens, form.begin):
            return tokens
        return tokens + self._encode_written(form.end)

    def begin_answer(self, tokens: tuple[TokenId, ...]) -> tuple[TokenId, ...]:
        """Return a prompt followed by the beginning of the answer, where the format has one."""
        form = encoder_of(self._model).reasoning_format
        if form is None or not form.answer or self._ends(tokens, form.answer):
            return tokens
        return tokens + self._encode_written(form.answer)

    def begin_thoughts(
        self,
        tokens: tuple[TokenId, ...],
        reasoning: Reasoning,
        *,
        constraint_begins_answer: bool = False,
    ) -> tuple[tuple[TokenId, ...], tuple[Text | SpecialToken, ...]]:
        """Return the prompt with thoughts begun after it, and what ends them.

        ``constraint_begins_answer`` says that the constraint contains the beginning of an answer.

        Most templates with thoughts begin them themselves; then nothing is added. Raises
        RequestError if neither the request nor the template says what stands around thoughts.
        """
        begin, end = reasoning.begin, reasoning.end
        form = encoder_of(self._model).reasoning_format
        if form is not None:
            begin = begin or form.begin
        if not end:
            if form is None:
                known = ", ".join(each.template_marker for each in FORMATS)
                raise RequestError(
                    f"the chat template of {self._model.name} has none of the signs by which "
                    f"thoughts are known ({known})",
                    field="reasoning",
                    hint="leave reasoning out, or say with begin and end what stands around them",
                )
            end = form.end + ("" if constraint_begins_answer else form.answer)
        pieces = split_at_tokens(end, self._model.vocabulary.named)
        if not begin or self._begins_thoughts(tokens, begin):
            return tokens, pieces
        return tokens + self._encode_written(begin), pieces

    def _begins_thoughts(self, tokens: tuple[TokenId, ...], begin: str) -> bool:
        return any(self._ends(tokens, written) for written in (begin, begin.rstrip()))

    def _ends(self, tokens: tuple[TokenId, ...], text: str) -> bool:
        written = self._encode_written(text)
        return bool(written) and tokens[-len(written) :] == written

    def _encode_written(self, text: str) -> tuple[TokenId, ...]:
        encoder = encoder_of(self._model)
        return tuple(map(TokenId, encoder.encode_written(text)))
