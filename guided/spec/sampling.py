"""The options of how a token is chosen among those that the mask allows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypedDict

from guided.errors import LimitExceededError, RequestError
from guided.spec.option import Option, Rule, above, at_least, between, check_rules, inside

__all__ = ["MAX_BIASES", "Sampling", "SamplingOptions"]

MAX_BIASES = 1024
"""Most tokens that may have a bias in one request."""

_DRAWING = ("temperature", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
"""Options about drawing, which contrastive search does not have; a falsy value turns each off."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen among those that the mask allows.

    The steps, in order: bias, penalties, ban on repeated n-grams, temperature, then the filters
    top-k, top-p, min-p, typical, epsilon and eta, each applied to what the previous one left. None
    of them removes the last allowed token. Tokens that end the answer are neither penalised nor
    banned. An option that is ``None`` does nothing; without a ``seed`` one is drawn.
    """

    temperature: Annotated[
        float, Option("Randomness; 0 takes the likeliest token.", between(0, 100))
    ] = 0.0
    top_k: Annotated[int | None, Option("Keep the k likeliest tokens.", at_least(1))] = None
    top_p: Annotated[
        float | None,
        Option("Keep the smallest set of the likeliest tokens that reaches p.", above(0, 1)),
    ] = None
    seed: Annotated[
        int | None,
        Option(
            "The same seed gives the same tokens, whatever else is in the batch.",
            Rule(lambda value: 0 <= value < 2**63, "is not between 0 and 2**63 - 1"),
        ),
    ] = None
    min_p: Annotated[
        float | None,
        Option(
            "Keep the tokens that are at least p times as likely as the likeliest.", above(0, 1)
        ),
    ] = None
    # Locally typical sampling, arXiv:2202.00666.
    typical_p: Annotated[
        float | None,
        Option(
            "Keep the smallest set of tokens, those of surprise nearest to the entropy, that"
            " reaches p.",
            above(0, 1),
        ),
    ] = None
    # Both cutoffs are those of arXiv:2210.15191.
    epsilon_cutoff: Annotated[
        float | None, Option("Keep the tokens with at least this probability.", inside(0, 1))
    ] = None
    eta_cutoff: Annotated[
        float | None,
        Option(
            "Keep the tokens with at least the probability min(eta, sqrt(eta) * exp(-entropy)).",
            inside(0, 1),
        ),
    ] = None
    repetition_penalty: Annotated[
        float,
        Option(
            "Divide positive logits of tokens in prompt or answer by this, multiply negative ones.",
            between(0.01, 100),  # a quotient by next to nothing would be infinite
        ),
    ] = 1.0
    presence_penalty: Annotated[
        float,
        Option("Subtract this from the logit of every token in the answer.", between(-2, 2)),
    ] = 0.0
    frequency_penalty: Annotated[
        float,
        Option(
            "Subtract this from a token's logit once for each time that it is in the answer.",
            between(-2, 2),
        ),
    ] = 0.0
    no_repeat_ngram_size: Annotated[
        int | None,
        Option(
            "Do not repeat any run of this many tokens of prompt and answer if another token is"
            " allowed; forced runs may repeat.",
            at_least(1),
        ),
    ] = None
    logit_bias: Annotated[
        tuple[tuple[int, float], ...],
        Option("Number from -100 to 100 to add to the logit of a token, given by its id."),
    ] = ()
    # Contrastive search, arXiv:2202.06417.
    penalty_alpha: Annotated[
        float | None,
        Option(
            "Contrastive search: of the top-k likeliest tokens, take the one with the largest"
            " (1 - alpha) * probability - alpha * likeness to a token before it.",
            between(0, 1),
        ),
    ] = None

    def __post_init__(self) -> None:
        check_rules(self, "sampling.")
        _check_bias(self.logit_bias)
        if self.is_contrastive:
            self._check_contrast()
        # The order in which they are given has no effect.
        object.__setattr__(self, "logit_bias", tuple(sorted(self.logit_bias)))

    def _check_contrast(self) -> None:
        if self.top_k is None:
            raise RequestError(
                "penalty_alpha needs top_k, the number of tokens to choose among",
                field="sampling.top_k",
                hint="4 to 10 are usual",
            )
        for name in _DRAWING:
            value = getattr(self, name)
            if value:
                raise RequestError(
                    f"{name} {value!r} does not apply to contrastive search, which draws nothing",
                    field=f"sampling.{name}",
                    hint="leave it or penalty_alpha out",
                )

    @property
    def is_contrastive(self) -> bool:
        """Whether a choice depends on the hidden states of tokens."""
        return self.penalty_alpha is not None

    @property
    def num_candidate_tokens(self) -> int:
        """The number of tokens that contrastive search compares at a place; 0 without it."""
        return (self.top_k or 0) if self.is_contrastive else 0

    @property
    def adjusts_logits(self) -> bool:
        """Whether the logits are changed before the temperature."""
        return bool(self.logit_bias) or self.reads_history

    @property
    def filters(self) -> bool:
        """Whether any token may be filtered out after the temperature."""
        return not (
            self.top_k is None
            and self.top_p is None
            and self.min_p is None
            and self.typical_p is None
            and self.epsilon_cutoff is None
            and self.eta_cutoff is None
        )

    @property
    def reads_history(self) -> bool:
        """Whether a choice depends on earlier tokens other than through the logits."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
            or self.no_repeat_ngram_size is not None
        )


class SamplingOptions(TypedDict, total=False):
    """The fields of ``Sampling`` as keyword arguments, for type checkers."""

    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int | None
    min_p: float | None
    typical_p: float | None
    epsilon_cutoff: float | None
    eta_cutoff: float | None
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    no_repeat_ngram_size: int | None
    logit_bias: Mapping[int, float]
    penalty_alpha: float | None


def _check_bias(biases: tuple[tuple[int, float], ...]) -> None:
    field = "sampling.logit_bias"
    if len(biases) > MAX_BIASES:
        raise LimitExceededError(
            f"logit_bias has {len(biases)} tokens, above the limit of {MAX_BIASES}",
            limit=MAX_BIASES,
            field=field,
        )
    for token, bias in biases:
        if token < 0:
            raise RequestError(f"logit_bias names token {token!r}, below 0", field=field)
        if not -100 <= bias <= 100:
            raise RequestError(
                f"logit_bias {bias!r} of token {token} is not between -100 and 100", field=field
            )
    for token, following in itertools.pairwise(sorted(token for token, _ in biases)):
        if token == following:
            raise RequestError(f"logit_bias names token {token} twice", field=field)
