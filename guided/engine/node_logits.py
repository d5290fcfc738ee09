"""The logits of a model call after the nodes of a draft tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from guided.model.batch import SegmentOutput

__all__ = ["NodeLogits"]


class NodeLogits(Mapping[int, NDArray[np.float32]]):
    """The logits after each node that needs them, ``[vocabulary]``, fetched when they are read."""

    def __init__(self, nodes_needing_logits: Sequence[int], output: SegmentOutput) -> None:
        self._nodes = nodes_needing_logits
        self._output = output

    def __getitem__(self, node: int) -> NDArray[np.float32]:
        try:
            index = self._nodes.index(node)
        except ValueError:
            raise KeyError(node) from None
        return self._output.logits_of(index)

    def __iter__(self) -> Iterator[int]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
