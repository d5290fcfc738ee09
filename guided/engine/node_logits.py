"""What a model call says after the nodes of a draft tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from guided.model.batch import SegmentOutput
from guided.spec import TokenId

__all__ = ["NodeLogits"]


class NodeLogits(Mapping[int, NDArray[np.float32]]):
    """The logits after each deciding node, ``[vocabulary]``, fetched where they are read."""

    def __init__(self, deciding: Sequence[int], output: SegmentOutput) -> None:
        self._rows = {node: row for row, node in enumerate(deciding)}
        self._output = output

    @property
    def drawn(self) -> Mapping[int, TokenId]:
        """What was drawn after nodes where the logits are."""
        pairs = zip(self._rows, self._output.drawn, strict=True)
        return {node: token for node, token in pairs if token is not None}

    def __getitem__(self, node: int) -> NDArray[np.float32]:
        return self._output.logits_of(self._rows[node])

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
