"""How a token is chosen among those that the mask allows: what a caller may set."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from guided.errors import LimitExceededError, RequestError

__all__ = ["MOST_BIASES", "Sampling"]

MOST_BIASES = 1024
"""Tokens that may have a bias in one request."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen among those that the mask allows.

    The steps, in order: bias, penalties, ban on repeated n-grams, temperature, then the filters
    top-k, top-p, min-p, typical, epsilon and eta, each on what the one before it left. None of
    them takes the last allowed token away. Tokens that end the answer are neither penalised nor
    banned.
    """

    temperature: float = 0.0
    """0 takes the likeliest token (greedy)."""
    top_k: int | None = None
    """Keep the k likeliest tokens; ``None`` keeps all."""
    top_p: float | None = None
    """Keep the least set of likeliest tokens whose probability reaches p; ``None`` keeps all."""
    seed: int | None = None
    """The same seed gives the same tokens whatever else is in the batch; ``None`` draws one."""
    min_p: float | None = None
    """Keep the tokens at least p times as likely as the likeliest; ``None`` keeps all."""
    typical_p: float | None = None
    """Keep the least set that reaches p of the tokens whose surprise is nearest to the entropy
    (locally typical sampling, arXiv:2202.00666); ``None`` keeps all."""
    epsilon_cutoff: float | None = None
    """Keep the tokens of at least this probability (arXiv:2210.15191); ``None`` keeps all."""
    eta_cutoff: float | None = None
    """Keep the tokens of at least min(eta, sqrt(eta) * exp(-entropy)) (arXiv:2210.15191);
    ``None`` keeps all."""
    repetition_penalty: float = 1.0
    """Logits of tokens in prompt or answer are divided by it where positive, else multiplied."""
    presence_penalty: float = 0.0
    """Taken off the logit of every token that the answer has."""
    frequency_penalty: float = 0.0
    """Taken off the logit of a token once for each time that the answer has it."""
    no_repeat_ngram_size: int | None = None
    """No run of so many tokens comes twice in prompt and answer, where there is another way on;
    forced runs are not asked. ``None`` allows repeats."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Token ids and what is added to their logits, from -100 to 100; ordered by token."""
    penalty_alpha: float | None = None
    """Contrastive search (arXiv:2202.06417): of the ``top_k`` likeliest tokens, take the one of the
    largest (1 - alpha) * probability - alpha * likeness to a token before it; ``None`` does not."""

    def __post_init__(self) -> None:
        for name, (is_right, complaint) in _RULES.items():
            value = getattr(self, name)
            if value is not None and not is_right(value):
                raise RequestError(f"{name} {value!r} {complaint}", field=f"sampling.{name}")
        _check_bias(self.logit_bias)
        if self.is_contrastive:
            self._check_contrast()
        # The order in which they are given says nothing.
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
                    f"{name} {value!r} has no part in contrastive search, which draws nothing",
                    field=f"sampling.{name}",
                    hint="leave it or penalty_alpha out",
                )

    @property
    def is_contrastive(self) -> bool:
        """Whether a choice depends on the hidden states of tokens."""
        return self.penalty_alpha is not None

    @property
    def contenders(self) -> int:
        """Tokens that contrastive search tries at a place; 0 where there is none."""
        return (self.top_k or 0) if self.is_contrastive else 0

    @property
    def adjusts_logits(self) -> bool:
        """Whether anything happens to the logits before the temperature."""
        return bool(self.logit_bias) or self.reads_history

    @property
    def filters(self) -> bool:
        """Whether any token may be left out after the temperature."""
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
        """Whether a choice depends on which tokens came before, besides through the logits."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
            or self.no_repeat_ngram_size is not None
        )


_Rule = tuple[Callable[[float], bool], str]

_FROM_1: _Rule = (lambda value: value >= 1, "is below 1")
_SHARE: _Rule = (lambda value: 0 < value <= 1, "is not above 0 and at most 1")
_CUTOFF: _Rule = (lambda value: 0 < value < 1, "is not above 0 and below 1")
_PENALTY: _Rule = (lambda value: -2 <= value <= 2, "is not between -2 and 2")

_DRAWING = ("temperature", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
"""Options about a draw, which are not for contrastive search; each of them is off where falsy."""

# Each is written so that NaN fails it.
_RULES: Mapping[str, _Rule] = {
    "temperature": (lambda value: 0 <= value <= 100, "is not between 0 and 100"),
    "top_k": _FROM_1,
    "top_p": _SHARE,
    "seed": (lambda value: 0 <= value < 2**63, "is not between 0 and 2**63 - 1"),
    "min_p": _SHARE,
    "typical_p": _SHARE,
    "epsilon_cutoff": _CUTOFF,
    "eta_cutoff": _CUTOFF,
    "repetition_penalty": (lambda value: 0 < value <= 100, "is not above 0 and at most 100"),
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "no_repeat_ngram_size": _FROM_1,
    "penalty_alpha": (lambda value: 0 <= value <= 1, "is not between 0 and 1"),
}


def _check_bias(biases: tuple[tuple[int, float], ...]) -> None:
    field = "sampling.logit_bias"
    if len(biases) > MOST_BIASES:
        raise LimitExceededError(
            f"logit_bias has {len(biases)} tokens, above the limit of {MOST_BIASES}",
            limit=MOST_BIASES,
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
