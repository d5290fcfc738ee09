"""What is trained on: the tokens of prompts and answers, and how much each of them matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from guided.errors import RequestError
from guided.train.answers import Answer

__all__ = ["Example", "Places", "draw_places", "most_frequent", "split"]

_HELD_OUT: Final = 16
"""Of so many answers one is held out."""
_LEAST: Final = 4
"""Fewer answers cannot be trained on."""
BESIDE_WEIGHT: Final = 0.1
"""How much tokens of the prompt matter, and forced ones, beside those that the model chose."""


@dataclass(frozen=True, slots=True)
class Example:
    """The tokens of a prompt and its answer."""

    key: str
    tokens: tuple[int, ...]
    chosen: tuple[bool, ...]
    """Which of them the model chose, by itself and in the answer."""


def split(answers: Iterable[Answer], *, longest: int) -> tuple[list[Example], list[Example]]:
    """Examples to train on, and those held out; texts are cut where they are too long.

    Which are held out depends on their keys alone, so it is the same in every run. Raises
    ``RequestError`` where there are too few.
    """
    training: list[Example] = []
    held_out: list[Example] = []
    for answer in sorted(answers, key=lambda each: each.key):
        marks = (False,) * len(answer.prompt) + answer.chosen
        example = Example(answer.key, answer.tokens[:longest], marks[:longest])
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
    """The tokens that occur most often, in ascending order, ``[count]``.

    Those that the target chose come first, then others that occur, then the lowest ids: those are
    the most frequent of other texts in vocabularies that are built by merging pairs.
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

    A place is a token after which the model has been asked, so a draft may begin there.
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
    """Draw places of a batch, those after which the model chose the more often.

    ``every`` takes all those instead, and no others.
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
    # Where the places are near the end there is padding to read.
    wide = torch.nn.functional.pad(tokens, (0, depth))
    heavy = torch.nn.functional.pad(weights, (0, depth))
    reach = token[:, None] + torch.arange(1, depth + 1)
    return Places(text, token, wide[text[:, None], reach], heavy[text[:, None], reach])
