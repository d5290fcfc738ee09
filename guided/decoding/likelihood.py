"""How likely an answer was, to compare it with other answers to the same request."""

from __future__ import annotations

from collections.abc import Iterable

from guided.decoding.logprobs import ChoiceLogprobs

__all__ = ["mean_logprob"]


def mean_logprob(choices: Iterable[ChoiceLogprobs]) -> float:
    """The mean raw log-probability of the tokens that the model chose; 0 where it chose none.

    A mean, as a sum would favour short answers. Raw, as the masked one calls a token certain that
    the mask all but forced on the model. A token that was the only one allowed is no choice,
    whether it was forced or not, so what is forced does not change the score.
    """
    chosen = [choice.raw for choice in choices if not choice.is_only]
    return sum(chosen) / len(chosen) if chosen else 0.0
