"""The context of a sequence, for drafters that are tried without an engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from guided.decoding import Acceptance, Chooser, DraftContext, DraftTree, VerifiedStep
from guided.spec import Forcing, Sampling

__all__ = ["draft_context", "verified"]


def draft_context(sampling: Sampling | None = None, **changed: Any) -> DraftContext:
    """A greedy sequence without a constraint; ``changed`` replaces fields."""
    chooser = Chooser(sampling or Sampling(), seed=0, max_tokens=1000, end_ids=frozenset())
    whole: dict[str, Any] = {
        "forcing": Forcing.CANONICAL,
        "chooser": chooser,
        "constraint": None,
        "cache_salt": "",
        "drafters": (),
        "prompt_length": 0,
    }
    return DraftContext(**(whole | changed))


def verified(tree: DraftTree, acceptance: Acceptance, *, was_drafted: bool = True) -> VerifiedStep:
    """A step without hidden states, at the start of its sequence."""
    nothing = np.empty((0, 0), np.float32)
    return VerifiedStep(tree, acceptance, nothing, nothing, 0, was_drafted=was_drafted)
