"""What rank 0 and the other ranks say to each other.

::

    rank 0                                     rank 1, 2, ...
      │  ── RankSettings, on the command line ─▶  │  loads torch
      │  ◀── Started ───────────────────────────  │
      │       they meet in torch.distributed      │  load their shares of the weights
      │  ◀── Loaded, or Failed and the end ─────  │
      │  ── Open, Copy, Call ──────────────────▶  │  does what rank 0 does
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self, TypeAlias

import msgspec
import numpy as np

from guided.kv.layer_groups import LayerShape
from guided.kv.reservation import Reservation, SlotCopies
from guided.model.batch import Segment, StepBatch
from guided.model.parallel.split import Split
from guided.spec import TokenId

__all__ = [
    "Call",
    "Copy",
    "Failed",
    "FromRank",
    "Loaded",
    "Open",
    "RankSettings",
    "Started",
    "ToRank",
    "read_from_rank",
    "read_settings",
    "read_to_rank",
    "write",
]


class RankSettings(msgspec.Struct, frozen=True):
    """What a rank is started with."""

    rank: int
    split: Split
    """How the model is split, over how many ranks, the first among them."""
    meeting: str
    """File by which they find each other."""
    control: int
    """Descriptor of the connection to rank 0."""
    folder: str
    """Of the model."""
    dtype: str
    device: str
    """The type of device; which of them follows from the rank."""
    threads: int
    quantises_cache: bool


class Started(msgspec.Struct, frozen=True, tag=True):
    """The process has loaded its libraries."""


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """The rank is ready for calls."""

    nbytes: int
    """Of its share of the weights."""
    layers: tuple[LayerShape, ...]
    """What its layers keep of a token; nothing for those of others."""
    windows: tuple[int | None, ...]
    """How far layers see, of which all ranks have to think alike."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The rank cannot go on, and its process ends."""

    reason: str
    trace: str = ""
    """Where a fault of our own was met; empty where the model or the settings are wrong."""


class Open(msgspec.Struct, frozen=True, tag=True):
    """Take the memory for the cache."""

    num_slots: tuple[int, ...]
    """By group of layers."""


class Copy(msgspec.Struct, frozen=True, tag=True):
    """Copy rows of the cache."""

    by_group: list[tuple[bytearray, bytearray]]
    """Slots to read and slots to write, int64."""

    @classmethod
    def of(cls, copies: Iterable[SlotCopies]) -> Self:
        """The message for copies by group of layers."""
        return cls([(_written(each.sources), _written(each.targets)) for each in copies])

    def copies(self) -> list[SlotCopies]:
        """The copies, by group of layers."""
        return [SlotCopies(_ints(sources), _ints(targets)) for sources, targets in self.by_group]


class _Rows(msgspec.Struct, frozen=True, array_like=True):
    """A reservation, whose copies were made before."""

    start: int
    seen: bytearray
    count: int


class _Segment(msgspec.Struct, frozen=True, array_like=True):
    """What a share of a call depends on: hidden states are rank 0's alone to hand out."""

    rows: list[_Rows]
    committed: int
    tokens: tuple[TokenId, ...]
    depths: tuple[int, ...]
    earlier: tuple[int, ...]
    ancestors: bytearray | None
    deciding: tuple[int, ...]

    @classmethod
    def of(cls, segment: Segment) -> Self:
        """A segment as it is sent to another rank."""
        assert not segment.adapter, "an adapter on a model in shares"
        assert segment.recurrence is None or segment.recurrence.computed is None, "a state"
        sees = segment.ancestors
        return cls(
            [_Rows(rows.start, _written(rows.seen), rows.count) for rows in segment.rows],
            segment.committed,
            segment.tokens,
            segment.depths,
            segment.earlier,
            None if sees is None else bytearray(sees.tobytes()),
            segment.deciding,
        )

    def segment(self) -> Segment:
        """The segment as a rank computes it, without what stays with rank 0."""
        sees = None
        if self.ancestors is not None:
            sees = np.frombuffer(self.ancestors, np.bool_).reshape(len(self.tokens), -1)
        return Segment(
            rows=tuple(
                Reservation(rows.start, _ints(rows.seen), rows.count, SlotCopies.none())
                for rows in self.rows
            ),
            committed=self.committed,
            tokens=self.tokens,
            depths=self.depths,
            ancestors=sees,
            deciding=self.deciding,
            earlier=self.earlier,
        )


class Call(msgspec.Struct, frozen=True, tag=True):
    """Compute a share of one model call."""

    segments: list[_Segment]

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> Self:
        """The message for the segments of a batch."""
        return cls([_Segment.of(segment) for segment in segments])

    def batch(self) -> StepBatch:
        """The batch, as far as a share of the call depends on it."""
        return StepBatch(tuple(each.segment() for each in self.segments))


ToRank: TypeAlias = Open | Copy | Call
FromRank: TypeAlias = Started | Loaded | Failed

_encoder = msgspec.msgpack.Encoder()
_to_rank: msgspec.msgpack.Decoder[ToRank] = msgspec.msgpack.Decoder(ToRank)
_from_rank: msgspec.msgpack.Decoder[FromRank] = msgspec.msgpack.Decoder(FromRank)


def write(message: ToRank | FromRank) -> bytes:
    """A message as bytes."""
    return _encoder.encode(message)


def read_to_rank(payload: bytes) -> ToRank:
    """The message that rank 0 wrote."""
    return _to_rank.decode(payload)


def read_from_rank(payload: bytes) -> FromRank:
    """The message that another rank wrote."""
    return _from_rank.decode(payload)


def read_settings(text: str) -> RankSettings:
    """The settings that came on the command line."""
    return msgspec.json.decode(text, type=RankSettings)


def _written(slots: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> bytearray:
    return bytearray(slots.tobytes())


def _ints(payload: bytearray) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    # Of a bytearray, as torch takes no array that must not be written to.
    return np.frombuffer(payload, np.int64)
