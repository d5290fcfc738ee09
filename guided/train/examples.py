"""The examples to train on: the tokens of prompts and answers, and the weight of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

from guided.errors import RequestError

__all__ = ["Example", "Places", "draw_places", "most_frequent", "split"]

_HELD_OUT: Final = 16
"""One of this many answers is held out."""
_LEAST: Final = 4
"""Fewer answers cannot be trained on."""
BESIDE_WEIGHT: Final = 0.1
"""The weight of prompt tokens and forced ones, relative to those that the model chose."""


@dataclass(frozen=True, slots=True)
class Example:
    """The tokens of a prompt and its answer."""

    key: str
    """Identifies the request that was answered; see ``wanted_answers``."""
    tokens: tuple[int, ...]
    chosen: tuple[bool, ...]
    """Which of them the model chose; the others are the prompt's, or the constraint forced them."""


def split(answers: Iterable[Example], *, longest: int) -> tuple[list[Example], list[Example]]:
    """Split answers into examples to train on and held-out ones; cuts texts that are too long.

    The choice depends only on their keys, so it is the same in every run. Raises ``RequestError``
    if there are too few.
    """
    training: list[Example] = []
    held_out: list[Example] = []
    for answer in sorted(answers, key=lambda each: each.key):
        example = replace(answer, tokens=answer.tokens[:longest], chosen=answer.chosen[:longest])
        if any(example.chosen):
            is_held_out = int(answer.key, 16) % _HELD_OUT == 0
            (held_out if is_held_out else training).append(example)
    if len(training) < _LEAST or not held_out:
        raise RequestError(
            f"there are {len(training)} answers to train on and {len(held_out)} to measure with",
            field="data",
            hint="give more prompts; one answer of sixteen or so is held out",
        )
    return training, held_out


def most_frequent(examples: Iterable[Example], count: int, vocabulary: int) -> torch.Tensor:
    """Return the tokens that occur most often, in ascending order, ``[count]``.

    Those that the target chose come first, then others that occur, then the lowest ids: in
    vocabularies built by merging pairs, those are the most frequent in other texts.
    """
    chosen: Counter[int] = Counter()
    others: Counter[int] = Counter()
    for example in examples:
        for token, is_chosen in zip(example.tokens, example.chosen, strict=True):
            (chosen if is_chosen else others)[token] += 1
    order = [token for token, _ in chosen.most_common()]
    order += [token for token, _ in others.most_common()]
    order += range(vocabulary)
    return torch.tensor(sorted(list(dict.fromkeys(order))[:count]))


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Places in a batch of texts, and the tokens that follow each of them.

    A place is a token after which a draft may begin.
    """

    text: torch.Tensor
    """``[places]``."""
    token: torch.Tensor
    """``[places]``."""
    following: torch.Tensor
    """``[places, depth]``: the tokens one, two, ... after it; 0 beyond the end."""
    weights: torch.Tensor
    """``[places, depth]``: how much each of them matters; 0 beyond the end."""


def draw_places(
    examples: Sequence[Example], count: int, depth: int, *, every: bool = False
) -> Places:
    """Draw places of a batch, more often those after which the model chose.

    ``every`` takes all of those instead, and no others.
    """
    length = max(len(each.tokens) for each in examples) + depth
    tokens = torch.zeros(len(examples), length, dtype=torch.long)
    weights = torch.zeros(len(examples), length)
    for number, example in enumerate(examples):
        end = len(example.tokens)
        tokens[number, :end] = torch.tensor(example.tokens)
        marks = torch.tensor(example.chosen, dtype=torch.float)
        weights[number, :end] = marks + (1.0 - marks) * BESIDE_WEIGHT
    after = weights[:, 1:]
    if every:
        places = (after == 1.0).nonzero()
    else:
        drawn = torch.multinomial(after.flatten(), min(count, int((after > 0).sum())))
        places = torch.stack((drawn // after.shape[1], drawn % after.shape[1]), -1)
    text, token = places.unbind(-1)
    # Places near the end read padding.
    wide = torch.nn.functional.pad(tokens, (0, depth))
    heavy = torch.nn.functional.pad(weights, (0, depth))
    reach = token[:, None] + torch.arange(1, depth + 1)
    return Places(text, token, wide[text[:, None], reach], heavy[text[:, None], reach])
