"""How the cache is divided, and what a sequence still needs of it."""

from __future__ import annotations

from collections.abc import Sequence

from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.sequence_blocks import SequenceBlocks

__all__ = ["cache_groups", "demand", "has_room"]


def cache_groups(
    windows: Sequence[int | None],
    *,
    cache_tokens: int,
    block_size: int,
    max_batch: int,
    step_tokens: int,
    widest_draft: int,
) -> list[LayerGroup]:
    """Blocks for each group of layers so that ``cache_tokens`` fit, rounded up to whole blocks.

    Layers with a window get no more than a full batch can have in sight.
    """
    everything = -(-cache_tokens // block_size)
    groups = []
    for window in windows:
        blocks = everything
        if window is not None:
            in_sight = max_batch * (window + widest_draft) + step_tokens
            # What a sequence has in sight may begin and end inside a block.
            blocks = min(everything, -(-in_sight // block_size) + 2 * max_batch)
        groups.append(LayerGroup(blocks, window))
    return groups


def demand(blocks: SequenceBlocks, count: int, step_tokens: int) -> tuple[int, ...]:
    """Blocks that a sequence takes, by group, until ``count`` more tokens are in the cache."""
    return tuple(
        table.blocks_needed(
            count if table.window is None else min(count, table.window + step_tokens)
        )
        for table in blocks.tables
    )


def has_room(cache: BlockCache, demands: Sequence[tuple[int, ...]]) -> bool:
    """Whether all of these could be met at once."""
    return all(
        sum(of_group) <= pool.num_available
        for pool, *of_group in zip(cache.pools, *demands, strict=True)
    )
