"""Finds where each token of an answer came from, from the trace of its steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import starmap

from guided.decoding.choice import ChosenToken
from guided.decoding.trace import Outcome, Trace, TracedStep
from guided.drafters.lookup import COPIES
from guided.spec import Alternative, GenerationResult, TokenId, TokenLogprobs

__all__ = ["Origin", "OriginReader", "TracedToken", "kinds_of", "origins"]


class Origin(StrEnum):
    """How a token came into an answer; values are shown to users."""

    FORCED = "forced"
    """It was certain, so it took no choice of the model."""
    COPIED = "copied"
    """Drafted because it followed the same text before, and chosen by the model."""
    DRAFTED = "drafted"
    """Drafted in another way, and chosen by the model."""
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
    """The model call that gave it, from 1; 0 if it was certain before the first."""
    drafter: str = ""
    kind: str = ""
    """The drafter's kind of the draft; empty if it distinguishes none."""
    probability: float | None = None
    """The model's probability among the allowed tokens; ``None`` if not chosen or not requested."""
    allowed_share: float | None = None
    """The model's probability of all allowed tokens together, if ``probability`` is known."""
    likeliest: tuple[Alternative, ...] = ()
    """The likeliest allowed tokens, as many as requested."""

    @property
    def source(self) -> str:
        """Its origin in words, with the drafter if it has one."""
        if self.origin is Origin.DRAFTED:
            return f"drafted by {self.drafter}"
        return self.origin.value


@dataclass(frozen=True, slots=True)
class _ChosenToken:
    """A token that the model chose or confirmed."""

    index: int
    """Its index among the answer's tokens."""
    origin: Origin
    drafter: str = ""
    kind: str = ""


def origins(
    result: GenerationResult, trace: Trace, token_bytes: tuple[bytes | None, ...]
) -> tuple[TracedToken, ...]:
    """Return the tokens of a complete answer with their origins.

    Probabilities are included if the request asked for ``top_logprobs``.
    """
    return OriginReader(trace, token_bytes).read(result.tokens, result.logprobs)


class OriginReader:
    """Finds the origins of an answer's tokens while it is generated."""

    def __init__(self, trace: Trace, token_bytes: tuple[bytes | None, ...]) -> None:
        self._trace = trace
        self._token_bytes = token_bytes
        self._chosen: dict[int, tuple[int, _ChosenToken]] = {}
        """What the model chose or confirmed, with its step, by index."""
        self._steps_read = 0
        self._tokens_read = 0
        self._last_step = 0
        """The step that gave the last token."""

    def read(
        self, tokens: Sequence[TokenId], logprobs: Sequence[TokenLogprobs]
    ) -> tuple[TracedToken, ...]:
        """Return more tokens with their origins; they follow those of the previous call."""
        for step in self._trace.steps[self._steps_read :]:
            self._steps_read += 1
            self._chosen |= {one.index: (self._steps_read, one) for one in _chosen_tokens(step)}
        by_token: Sequence[TokenLogprobs | None] = logprobs or [None] * len(tokens)
        return tuple(starmap(self._trace_token, zip(tokens, by_token, strict=True)))

    def _trace_token(self, token: TokenId, logprobs: TokenLogprobs | None) -> TracedToken:
        """Return the answer's next token with its origin."""
        # Certain tokens after a choice came in the same step.
        certain = self._last_step, _ChosenToken(self._tokens_read, Origin.FORCED)
        self._last_step, one = self._chosen.get(self._tokens_read, certain)
        self._tokens_read += 1
        traced = TracedToken(
            token=token,
            text=self._token_bytes[token] or b"",
            origin=one.origin,
            step=self._last_step,
            drafter=one.drafter,
            kind=one.kind,
        )
        if logprobs is None or logprobs.raw is None or logprobs.masked is None:
            return traced
        return replace(
            traced,
            probability=math.exp(logprobs.masked),
            # A token that the model finds impossible says nothing of the others.
            allowed_share=math.exp(logprobs.raw - logprobs.masked)
            if logprobs.raw > -math.inf
            else None,
            likeliest=logprobs.top,
        )


def kinds_of(step: TracedStep) -> dict[tuple[int, TokenId], str]:
    """Return the kind of each drafted token, by the node that it follows."""
    return {
        (proposal.node, proposal.token): proposal.kind
        for proposal in step.proposals
        if proposal.outcome is Outcome.ADDED
    }


def _chosen_tokens(step: TracedStep) -> Iterator[_ChosenToken]:
    """Yield the tokens of a step that the model chose, in the order of the answer."""
    tree, path, choice = step.tree, step.acceptance.path, step.acceptance.choice
    kinds, trunk = kinds_of(step), tree.trunk_length
    for index, node in enumerate(path[trunk:], start=step.position):
        parent = tree.parents[node]
        if tree.certain[node]:
            continue
        assert parent is not None, f"drafted node {node} is a root"
        kind = kinds.get((parent, tree.tokens[node]), "")
        origin = Origin.COPIED if kind in COPIES else Origin.DRAFTED
        yield _ChosenToken(index, origin, tree.sources[node], kind)
    # A token that ends the answer is not part of it.
    if isinstance(choice, ChosenToken) and choice.matcher is not None:
        is_corrected = bool(tree.children()[path[-1]])
        origin = Origin.CORRECTED if is_corrected else Origin.SAMPLED
        yield _ChosenToken(step.position + len(path) - trunk, origin)
