"""Constraints that are worked on by turns give the same masks as alone."""

from __future__ import annotations

import random
from functools import partial

import numpy as np

from guided.constraint import ConstraintCompiler
from guided.engine.sliced_work import SlicedWork
from guided.masks.mask import tokens_of
from tests.kit.hostile_constraints import HOSTILE
from tests.kit.tokenizers import real_vocabulary

_NAMES = ("one of 40 overlapping objects", "a tree of objects", "60 tools to call")
"""All of them need much work while masks are made, and rest in between."""
_TOKENS = 12


def masks_along(compiler: ConstraintCompiler, name: str) -> list[bytes]:
    """The masks along a random answer."""
    vocabulary, rng = compiler.binding.vocabulary, random.Random(name)
    matcher, masks = compiler.start(HOSTILE[name]()), list[bytes]()
    while not matcher.is_complete and len(masks) < _TOKENS:
        mask = matcher.mask()
        masks.append(mask.tobytes())
        tokens = [t for t in tokens_of(mask).tolist() if vocabulary.token_bytes[t] is not None]
        matcher = matcher.advance(rng.choice(tokens))
    return masks


def test_masks_are_the_same_whatever_is_done_in_their_rests() -> None:
    vocabulary = real_vocabulary("smollm2")
    alone, together = ConstraintCompiler(vocabulary), ConstraintCompiler(vocabulary)
    works = {name: SlicedWork(partial(masks_along, together, name)) for name in _NAMES}
    left = list(works.values())
    while left:
        # Slices without time end at the first check of the clock.
        left = [work for work in left if not work.run_slice(0.0)]
        for work in left:
            work.wait()
    for name, work in works.items():
        assert work.result() == masks_along(alone, name)


def test_each_thread_walks_in_memory_of_its_own() -> None:
    scratch = ConstraintCompiler(real_vocabulary("smollm2")).binding.scratch
    assert scratch.get() is scratch.get()
    other = SlicedWork(scratch.get)
    while not other.run_slice():
        pass
    assert not np.shares_memory(other.result().words, scratch.get().words)
