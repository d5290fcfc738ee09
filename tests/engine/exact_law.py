"""The exact distribution of the answers in a small language, and whether draws follow it.

The words of the language are all its answers. The probability of each is the product of the
probabilities that model, mask and the samplers of transformers give its tokens, one at a time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    LogitsProcessorList,
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    PreTrainedModel,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from guided.spec import Sampling, TokenId
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher, spell_bytes
from tests.engine.tiny_models import make_model

LEAST_P = 0.001
PROMPT = spell_bytes(b"abc name 12")
WORDS = ("ab", "abc", "abab", "abcd", "bcd", "b", "12", "121", "1212", "na12", "name")
ROOT = WordMatcher.of(WORDS)
MODEL = make_model()

Answer = tuple[TokenId, ...]


class Computed(NamedTuple):
    """A model's output for the last token of a text."""

    logits: NDArray[np.float32]
    state: NDArray[np.float32]
    """The state after the last norm."""
    taps: NDArray[np.float32]
    """The inputs of the layers, side by side."""


@cache
def computed(text: tuple[TokenId, ...], model: PreTrainedModel = MODEL) -> Computed:
    """Cached: few prefixes occur, so many draws cost few model calls."""
    with torch.inference_mode():
        output = model(input_ids=torch.tensor([text]), output_hidden_states=True)
    *layers, state = [each[0, -1].float().numpy() for each in output.hidden_states]
    logits = output.logits[0, -1, : len(TOKEN_BYTES)].float().numpy()
    return Computed(logits, state, np.concatenate(layers))


def logits_behind(answer: Answer, model: PreTrainedModel = MODEL) -> NDArray[np.float32]:
    """The logits after the prompt and the beginning of an answer."""
    return computed((*PROMPT, *answer), model).logits


def exact_law(
    sampling: Sampling,
    max_tokens: int = 20,
    root: WordMatcher = ROOT,
    model: PreTrainedModel = MODEL,
) -> dict[Answer, float]:
    """The probability of every answer."""
    distribution: defaultdict[Answer, float] = defaultdict(float)
    pending: list[tuple[Answer, WordMatcher, float]] = [((), root, 1.0)]
    while pending:
        answer, matcher, probability = pending.pop()
        for token, share in choice_law(answer, matcher, sampling, max_tokens, model).items():
            if token in END_IDS:
                distribution[answer] += probability * share
                continue
            after = matcher.advance(token)
            if after.is_complete or len(answer) + 1 == max_tokens:
                distribution[*answer, token] += probability * share
            else:
                pending.append(((*answer, token), after, probability * share))
    assert sum(distribution.values()) == pytest.approx(1.0)
    return distribution


def choice_law(
    answer: Answer,
    matcher: WordMatcher,
    sampling: Sampling,
    max_tokens: int,
    model: PreTrainedModel = MODEL,
) -> dict[TokenId, float]:
    """The distribution of one token: transformers' steps on the masked tokens that fit the budget.

    If the filters leave no token that fits the budget, they are applied to those that fit alone.
    """
    left = max_tokens - len(answer) - 1
    ends = sorted(END_IDS) if matcher.is_accepting else []
    fitting = [
        *ends,
        *(token for token in matcher.legal() if matcher.advance(token).can_complete_within(left)),
    ]
    of_all = filtered(answer, [*ends, *matcher.legal()], sampling, model)
    distribution = {token: of_all[token] for token in fitting if token in of_all}
    distribution = distribution or filtered(answer, fitting, sampling, model)
    return {token: share / sum(distribution.values()) for token, share in distribution.items()}


def filtered(
    answer: Answer, allowed: list[TokenId], sampling: Sampling, model: PreTrainedModel = MODEL
) -> dict[TokenId, float]:
    """The tokens that the steps of transformers leave."""
    row = torch.full((1, len(TOKEN_BYTES)), -torch.inf, dtype=torch.float64)
    row[0, allowed] = torch.from_numpy(logits_behind(answer, model)).double()[allowed]
    for token, bias in sampling.logit_bias:
        row[0, token] += bias
    past: Any = torch.tensor([[*PROMPT, *answer]])
    row = RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty)(past, row)
    for token, count in Counter(answer).items():
        row[0, token] -= sampling.presence_penalty + count * sampling.frequency_penalty
    if sampling.no_repeat_ngram_size is not None:
        banned = NoRepeatNGramLogitsProcessor(sampling.no_repeat_ngram_size)(past, row)
        row = banned if torch.isfinite(banned).any() else row
    shares = LogitsProcessorList(filters(sampling))(past, row)[0].softmax(0)
    return {token: float(shares[token]) for token in allowed if shares[token] > 0}


def filters(sampling: Sampling) -> Iterator[Any]:
    yield TemperatureLogitsWarper(sampling.temperature)
    steps: tuple[tuple[Any, float | None], ...] = (
        (TopKLogitsWarper, sampling.top_k),
        (TopPLogitsWarper, sampling.top_p),
        (MinPLogitsWarper, sampling.min_p),
        (TypicalLogitsWarper, sampling.typical_p),
        (EpsilonLogitsWarper, sampling.epsilon_cutoff),
        (EtaLogitsWarper, sampling.eta_cutoff),
    )
    for kind, parameter in steps:
        if parameter is not None:
            yield kind(parameter)


def p_value(counts: Counter[Answer], distribution: dict[Answer, float]) -> float:
    """The probability that draws of it differ as much; the rarest answers count as one."""
    if not counts.keys() <= distribution.keys():
        return 0.0  # an impossible answer
    draws = counts.total()
    cells: list[tuple[float, float]] = []  # drawn, expected
    rare_drawn, rare_expected = 0.0, 0.0
    for answer, probability in distribution.items():
        if probability * draws < 10:
            rare_drawn += counts[answer]
            rare_expected += probability * draws
        else:
            cells.append((counts[answer], probability * draws))
    if rare_expected >= 1:
        cells.append((rare_drawn, rare_expected))
    assert len(cells) > 2, "a distribution that a test could not miss"
    chi_square = sum((drawn - expected) ** 2 / expected for drawn, expected in cells)
    degrees = torch.tensor((len(cells) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(degrees, torch.tensor(chi_square / 2).double()))
