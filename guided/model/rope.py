"""Rotary positions whose frequencies depend on how long a text is.

Of two ways to stretch a model's positions, ``dynamic`` and ``longrope``, transformers takes the
frequencies from the longest text of a call and turns all tokens of all texts by them, while keys in
the cache keep those of an earlier call. Up to the length that a model was trained for both are what
they would be for the text alone; so texts end there. All other ways depend on nothing but a token's
position.
"""

from __future__ import annotations

from transformers import PretrainedConfig

__all__ = ["longest_text"]


def longest_text(config: PretrainedConfig) -> int | None:
    """Tokens of a text whose frequencies are those of any shorter one; ``None`` is no limit."""
    rope = getattr(config, "rope_parameters", None) or {}
    # One set of parameters, or one for each type of layer.
    sets = [one for one in (rope, *rope.values()) if isinstance(one, dict)]
    limits = []
    for one in sets:
        if one.get("rope_type") == "longrope":
            limits.append(int(one["original_max_position_embeddings"]))
        elif one.get("rope_type") == "dynamic":
            limits.append(int(config.max_position_embeddings))
    return min(limits, default=None)
