"""Where each token of an answer came from, worked out from the trace of its steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from guided.decoding.choice import Choice
from guided.decoding.trace import Outcome, Trace, TracedStep
from guided.drafters.lookup import COPIES
from guided.spec import GenerationResult, TokenId

__all__ = ["Origin", "TracedToken", "kinds_of", "origins"]


class Origin(StrEnum):
    """How a token came into an answer."""

    FORCED = "forced"
    """It was certain, so the model was not asked."""
    COPIED = "copied"
    """Drafted because it followed the same text before, and the model chose it."""
    DRAFTED = "drafted"
    """Drafted otherwise, and the model chose it."""
    CORRECTED = "corrected"
    """Chosen by the model where something else was drafted."""
    SAMPLED = "sampled"
    """Chosen by the model where nothing was drafted."""


@dataclass(frozen=True, slots=True)
class TracedToken:
    """One token of an answer."""

    token: TokenId
    text: bytes
    """Its bytes, which may be part of a character."""
    origin: Origin
    step: int
    """The model call that brought it, from 1; 0 where it was certain before the first."""
    drafter: str = ""
    kind: str = ""
    """Which of its kinds the drafter calls the draft; empty where it has none."""
    probability: float | None = None
    """By the model, among the allowed tokens; ``None`` where it was not asked, or not told."""

    @property
    def source(self) -> str:
        """Its origin in words, with the drafter where there is one."""
        if self.origin is Origin.DRAFTED:
            return f"drafted by {self.drafter}"
        return self.origin.value


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A token that the model chose or confirmed."""

    index: int
    """Of the answer's tokens."""
    origin: Origin
    drafter: str = ""
    kind: str = ""


def origins(
    result: GenerationResult, trace: Trace, token_bytes: tuple[bytes | None, ...]
) -> tuple[TracedToken, ...]:
    """The tokens of an answer with their origins.

    Probabilities are there where the request asked for ``top_logprobs``.
    """
    chosen = {
        one.index: (number, one)
        for number, step in enumerate(trace.steps, start=1)
        for one in _chosen(step)
    }
    found = []
    latest = 0
    for index, token in enumerate(result.tokens):
        # What follows a choice with certainty came in the same step.
        latest, one = chosen.get(index, (latest, _Chosen(index, Origin.FORCED)))
        masked = result.logprobs[index].masked if result.logprobs else None
        found.append(
            TracedToken(
                token=token,
                text=token_bytes[token] or b"",
                origin=one.origin,
                step=latest,
                drafter=one.drafter,
                kind=one.kind,
                probability=None if masked is None else math.exp(masked),
            )
        )
    return tuple(found)


def kinds_of(step: TracedStep) -> dict[tuple[int, TokenId], str]:
    """The kind of each drafted token, by the node that it follows."""
    return {
        (proposal.node, proposal.token): proposal.kind
        for proposal in step.proposals
        if proposal.outcome is Outcome.ADDED
    }


def _chosen(step: TracedStep) -> Iterator[_Chosen]:
    tree, path, choice = step.tree, step.acceptance.path, step.acceptance.choice
    kinds, trunk = kinds_of(step), tree.trunk
    for index, node in enumerate(path[trunk:], start=step.position):
        parent = tree.parents[node]
        if tree.certain[node]:
            continue
        assert parent is not None, f"drafted node {node} is a root"
        kind = kinds.get((parent, tree.tokens[node]), "")
        origin = Origin.COPIED if kind in COPIES else Origin.DRAFTED
        yield _Chosen(index, origin, tree.sources[node], kind)
    # A token that ends the answer is no part of it.
    if isinstance(choice, Choice) and choice.matcher is not None:
        is_corrected = bool(tree.children()[path[-1]])
        origin = Origin.CORRECTED if is_corrected else Origin.SAMPLED
        yield _Chosen(step.position + len(path) - trunk, origin)
