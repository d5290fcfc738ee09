"""Masks of many positions in one call: of a batch of sequences, or of a draft tree.

Python looks up where each mask is stored; one call of a kernel, without the GIL, writes them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from guided.compiler.bitmask import Bitmask, row_error, row_numbers, writable_memory
from guided.compiler.integers import to_int, to_ints
from guided.compiler.matcher import Matcher, ends_answer, try_advance
from guided.errors import RequestError
from guided.masks.mask_kernels import fill_rows

if TYPE_CHECKING:
    from guided.masks.compiled import ConstraintMatcher
    from guided.masks.mask_delta import MaskDelta

__all__ = ["fill_bitmasks", "fill_masks", "fill_tree"]


def fill_bitmasks(
    matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int] | None = None
) -> None:
    """Write the mask of each matcher to its row of int32 ``[rows, words]``.

    Without ``rows``, the first rows are used. The matchers may be of different constraints. Raises
    what ``Matcher.fill_bitmask`` raises; some rows may have been written then.
    """
    row_list = range(len(matchers)) if rows is None else to_ints(rows, "rows")
    if len(row_list) != len(matchers):
        raise RequestError(
            f"{len(row_list)} rows are given for {len(matchers)} matchers",
            field="rows",
            hint="give each matcher the number of its row",
        )
    memory = writable_memory(bitmask)
    numbers = row_numbers(row_list, memory)
    fill_masks([matcher._mask() for matcher in matchers], memory, numbers)


def fill_tree(
    matcher: Matcher,
    parents: Iterable[int],
    tokens: Iterable[int],
    bitmask: Bitmask,
    row: int = 0,
) -> NDArray[np.bool_]:
    """Write what may follow each node of a draft tree: the first node to ``row``, one row per node.

    ``parents`` int ``[nodes]`` contains the index of each node's parent, which comes before the
    node. The first node is the root and has parent -1. It stands for the token that the matcher
    accepted last, whatever ``tokens`` contains for it. Returns bool ``[nodes]``: whether each node
    and all nodes above it are allowed. The rows of the other nodes, and of nodes after the end,
    allow only end-of-sequence tokens.
    """
    parent_of, token_of = to_ints(parents, "parents"), to_ints(tokens, "tokens")
    _check_tree(parent_of, token_of)
    first, memory = to_int(row, "row"), writable_memory(bitmask)
    rows = row_numbers(range(first, first + len(parent_of)), memory)
    positions: list[ConstraintMatcher | None] = [matcher._position]
    """By node, the position after it; ``None`` if it is not allowed or ends the answer."""
    allowed = np.ones(len(parent_of), dtype=np.bool_)
    for node in range(1, len(parent_of)):
        parent, token = positions[parent_of[node]], token_of[node]
        following = None if parent is None else try_advance(parent, token)
        positions.append(following)
        if following is None:
            allowed[node] = parent is not None and ends_answer(parent, token)
    masks = [
        matcher._end_mask if at is None else at.constraint.mask(at.position) for at in positions
    ]
    fill_masks(masks, memory, rows)
    return allowed


def _check_tree(parents: list[int], tokens: list[int]) -> None:
    """Raise RequestError unless every node has a token, and a parent that comes before it."""
    if len(parents) != len(tokens) or not parents:
        raise RequestError(
            f"the tree has {len(parents)} parents and {len(tokens)} tokens",
            field="parents",
            hint="give one of each for every node, the root among them",
        )
    if parents[0] != -1:
        raise RequestError(
            f"the first node has the parent {parents[0]}",
            field="parents",
            hint="it is the root: -1",
        )
    for node, parent in enumerate(parents[1:], 1):
        if not 0 <= parent < node:
            raise RequestError(
                f"node {node} has the parent {parent}",
                field="parents",
                hint="list each node after its parent, and one root alone",
            )


def fill_masks(masks: list[MaskDelta], memory: NDArray[np.int32], rows: NDArray[np.int64]) -> None:
    """Write each mask to its row of ``memory``; ``rows`` is int64 ``[masks]``."""
    records = np.fromiter([mask.address for mask in masks], np.int64, len(masks))
    num_rows, width = memory.shape
    written = fill_rows(
        records, rows, memory.__array_interface__["data"][0], num_rows, memory.strides[0], width
    )
    if written < len(masks):
        raise row_error(memory, int(rows[written]), len(masks[written].base))
