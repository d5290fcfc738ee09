"""The messages between rank 0 and the other ranks.

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
    """The settings that a rank is started with."""

    rank: int
    split: Split
    """How the model is split, and over how many ranks, including the first."""
    meeting: str
    """File by which they find each other."""
    control: int
    """Descriptor of the connection to rank 0."""
    folder: str
    """The folder of the model."""
    dtype: str
    device: str
    """The type of device; its number follows from the rank."""
    threads: int
    quantises_cache: bool


class Started(msgspec.Struct, frozen=True, tag=True):
    """The process has loaded its libraries."""


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """The rank is ready for calls."""

    nbytes: int
    """Bytes of its share of the weights."""
    layers: tuple[LayerShape, ...]
    """What its layers keep of a token; nothing for layers of other ranks."""
    windows: tuple[int | None, ...]
    """How far layers see, on which all ranks have to agree."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The rank cannot continue, and its process ends."""

    reason: str
    trace: str = ""
    """The traceback of a fault of our own; empty if the model or the settings are wrong."""


class Open(msgspec.Struct, frozen=True, tag=True):
    """Allocate the memory for the cache."""

    num_slots: tuple[int, ...]
    """One for each group of layers."""


class Copy(msgspec.Struct, frozen=True, tag=True):
    """Copy rows of the cache."""

    by_group: list[tuple[bytearray, bytearray]]
    """Slots to read and slots to write, int64."""

    @classmethod
    def of(cls, copies: Iterable[SlotCopies]) -> Self:
        """Make the message for copies by group of layers."""
        return cls([(_to_bytes(each.sources), _to_bytes(each.targets)) for each in copies])

    def copies(self) -> list[SlotCopies]:
        """Return the copies, by group of layers."""
        return [SlotCopies(_ints(sources), _ints(targets)) for sources, targets in self.by_group]


class _Rows(msgspec.Struct, frozen=True, array_like=True):
    """A reservation, whose copies were made before."""

    start: int
    seen: bytearray
    count: int


class _Segment(msgspec.Struct, frozen=True, array_like=True):
    """The parts of a segment that a share of a call depends on; only rank 0 hands out states."""

    rows: list[_Rows]
    num_committed: int
    tokens: tuple[TokenId, ...]
    depths: tuple[int, ...]
    earlier_depths: tuple[int, ...]
    ancestors: bytearray | None
    nodes_needing_logits: tuple[int, ...]

    @classmethod
    def of(cls, segment: Segment) -> Self:
        """Make the message of a segment."""
        assert not segment.adapter, "an adapter on a model in shares"
        assert segment.recurrence is None or segment.recurrence.computed is None, "a state"
        sees = segment.ancestors
        return cls(
            [_Rows(rows.start, _to_bytes(rows.seen), rows.count) for rows in segment.reservations],
            segment.num_committed,
            segment.tokens,
            segment.depths,
            segment.earlier_depths,
            None if sees is None else bytearray(sees.tobytes()),
            segment.nodes_needing_logits,
        )

    def segment(self) -> Segment:
        """Return the segment as a rank computes it, without the parts that stay with rank 0."""
        sees = None
        if self.ancestors is not None:
            sees = np.frombuffer(self.ancestors, np.bool_).reshape(len(self.tokens), -1)
        return Segment(
            reservations=tuple(
                Reservation(rows.start, _ints(rows.seen), rows.count, SlotCopies.none())
                for rows in self.rows
            ),
            num_committed=self.num_committed,
            tokens=self.tokens,
            depths=self.depths,
            ancestors=sees,
            nodes_needing_logits=self.nodes_needing_logits,
            earlier_depths=self.earlier_depths,
        )


class Call(msgspec.Struct, frozen=True, tag=True):
    """Compute a share of one model call."""

    segments: list[_Segment]

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> Self:
        """Make the message for the segments of a batch."""
        return cls([_Segment.of(segment) for segment in segments])

    def batch(self) -> StepBatch:
        """Return the batch, as far as a share of the call depends on it."""
        return StepBatch(tuple(each.segment() for each in self.segments))


ToRank: TypeAlias = Open | Copy | Call
FromRank: TypeAlias = Started | Loaded | Failed

_encoder = msgspec.msgpack.Encoder()
_to_rank: msgspec.msgpack.Decoder[ToRank] = msgspec.msgpack.Decoder(ToRank)
_from_rank: msgspec.msgpack.Decoder[FromRank] = msgspec.msgpack.Decoder(FromRank)


def write(message: ToRank | FromRank) -> bytes:
    """Encode a message as bytes."""
    return _encoder.encode(message)


def read_to_rank(payload: bytes) -> ToRank:
    """Decode a message that rank 0 wrote."""
    return _to_rank.decode(payload)


def read_from_rank(payload: bytes) -> FromRank:
    """Decode a message that another rank wrote."""
    return _from_rank.decode(payload)


def read_settings(text: str) -> RankSettings:
    """Decode the settings from the command line."""
    return msgspec.json.decode(text, type=RankSettings)


def _to_bytes(slots: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> bytearray:
    return bytearray(slots.tobytes())


def _ints(payload: bytearray) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    # From a bytearray, because torch takes no read-only array.
    return np.frombuffer(payload, np.int64)
