"""Reads from a request's fields how long the model thinks before it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, TypeAlias

from guided.errors import RequestError
from guided.spec import GenerationRequest, Reasoning
from guided.stats import ModelInfo
from guided_service.http.fields import GenerationFields, Given, ThoughtsBudget
from guided_service.http.hints import HINTS, THINKING_HINTS

__all__ = [
    "Effort",
    "Thinking",
    "ThinkingFields",
    "bounded_by_effort",
    "bounded_by_number",
    "thinking_if_able",
]

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

_SHARES: Final[Mapping[Effort, float]] = {
    "none": 0.0,
    "minimal": 0.1,
    "low": 0.2,
    "medium": 0.5,
    "high": 0.8,
    "xhigh": 0.9,
    "max": 0.95,
}
"""The part of the budget that thoughts may take, by effort."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """Thoughts before an answer, and the field that requests them."""

    reasoning: Reasoning
    field: str


class TemplateVariables(Given):
    """The variables of chat templates by which a request turns thoughts on or off.

    Models have one or the other: Qwen's ``enable_thinking``, DeepSeek's ``thinking``.
    """

    enable_thinking: bool | None = None
    thinking: bool | None = None


class ThinkingFields(GenerationFields):
    """The fields about thoughts that chats and responses share."""

    hints: ClassVar[Mapping[str, str]] = {**HINTS, **THINKING_HINTS}

    # vLLM's
    thinking_token_budget: ThoughtsBudget | None = None
    """The same as ``max_reasoning_tokens``."""
    chat_template_kwargs: TemplateVariables | None = None

    # Ours
    max_reasoning_tokens: ThoughtsBudget | None = None
    """Budget of thoughts before the answer, a part of the whole budget."""

    def thinking_of(
        self, effort: Effort | None, budget: int, *, effort_field: str, budget_field: str
    ) -> Thinking | None:
        """Return the thoughts that an effort or one of these fields requests.

        ``budget`` is in tokens, for thoughts and answer together. Raises RequestError for fields
        that contradict each other, for a number that leaves no budget for the answer, and for an
        effort whose share of the budget is no token.
        """
        bounded = self._bounded_by_number(budget, budget_field)
        if effort is not None:
            if bounded is not None:
                raise RequestError(
                    f"{effort_field} and {bounded.field} both say how long the model thinks",
                    field=effort_field,
                    hint="leave one out",
                )
            bounded = bounded_by_effort(effort, budget, effort_field, budget_field)
        switched = self._switched()
        if switched is None or bounded is None:
            return bounded or switched
        if switched.reasoning.is_off != bounded.reasoning.is_off:
            raise RequestError(
                f"{switched.field} and {bounded.field} contradict each other",
                field=switched.field,
                hint="leave one out",
            )
        return bounded

    def _bounded_by_number(self, budget: int, budget_field: str) -> Thinking | None:
        numbers = {
            name: most
            for name in ("max_reasoning_tokens", "thinking_token_budget")
            if (most := getattr(self, name)) is not None
        }
        if not numbers:
            return None
        field, most = next(iter(numbers.items()))
        if len({*numbers.values()}) > 1:
            raise RequestError(
                "max_reasoning_tokens and thinking_token_budget are the same bound, and differ",
                field="thinking_token_budget",
            )
        return bounded_by_number(most, budget, field, budget_field)

    def _switched(self) -> Thinking | None:
        """Return the thoughts that a variable of the template turns on or off, without a bound."""
        variables = self.chat_template_kwargs
        told = {} if variables is None else variables.model_dump(exclude_none=True)
        if len({*told.values()}) > 1:
            raise RequestError(
                "enable_thinking and thinking of chat_template_kwargs contradict each other",
                field="chat_template_kwargs",
                hint="leave one out",
            )
        for name, is_on in told.items():
            return Thinking(Reasoning(None if is_on else 0), f"chat_template_kwargs.{name}")
        return None


def bounded_by_number(most: int, budget: int, field: str, budget_field: str) -> Thinking:
    """Return thoughts of this many tokens; raises RequestError if they leave none for an answer."""
    if most >= budget:
        raise RequestError(
            f"the thoughts may have {most} tokens, but {budget} is the budget of thoughts and "
            "answer together",
            field=field,
            hint=f"raise {budget_field}, or lower {field}",
        )
    return Thinking(Reasoning(most), field)


def bounded_by_effort(
    effort: Effort, budget: int, effort_field: str, budget_field: str, off: str = "set it to none"
) -> Thinking:
    """Return thoughts of a part of the budget; raises RequestError if that is no token.

    ``off`` says how to turn thoughts off.
    """
    share = int(_SHARES[effort] * budget)
    if effort != "none" and not share:
        raise RequestError(
            f"{effort_field} {effort!r} leaves no token of {budget} for thoughts",
            field=effort_field,
            hint=f"raise {budget_field}, or {off}",
        )
    return Thinking(Reasoning(share), effort_field)


def thinking_if_able(
    request: GenerationRequest, model: ModelInfo, fault: RequestError | None
) -> GenerationRequest:
    """Return a request whose thoughts are left out if the model has none; raises ``fault`` if it
    has some.
    """
    if not model.thinks:
        return replace(request, reasoning=Reasoning(0))
    if fault is not None:
        raise fault
    return request
