"""Puts short texts through a model as transformers calls it, and as we do.

Three texts of ``TRIAL_TOKENS`` tokens: *main*, *side*, which leaves it for its last tokens, and
*beside*, which has nothing in common with them. The model gets all three, with logits after every
token, in the way of ``generate()``: no positions, no mask, and a cache of its own::

    main     m0 m1 m2 … m8 │ m9 m10  │ m11        one call, and another for the last tokens
    side     m0 m1 m2 … m8 │ s9 s10  │ s11
    beside   b0 b1 b2 … b8 │ b9 b10  │ b11

Our calls are those that an engine makes: several texts in a row, texts cut into several calls, and
a draft tree, which is cut as well::

    1    m0 … m5 ┃ b0 … b11            two texts in one row
    2    m6 m7 m8 ─┬─ m9 ── m10        a text continues, and a tree begins
                   └─ s9
    3    m11 after m10, s10 after s9, s11 after s10

Recurrent layers compute a tree in one call, so for them *main* and *side* continue as two texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from guided.errors import ModelError
from guided.kv.layer_groups import LayerShape
from guided.kv.paged_storage import LayerSlots, SlotTensor
from guided.kv.recurrence import Recurrence
from guided.kv.reservation import Reservation, SlotCopies
from guided.model.attention import Attention, AttentionKernel, LayerCall, open_attention
from guided.model.batch import Segment, StepBatch
from guided.model.packed_call import call_packed
from guided.model.recurrent import Mix, Mixer, RecurrentStep, try_continuing
from guided.model.visible import visible_slots
from guided.spec import TokenId

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = [
    "FIRST",
    "SHARED",
    "TRIAL_TOKENS",
    "Ours",
    "Own",
    "TrialTexts",
    "call_as_we_do",
    "call_plainly",
    "trial_texts",
]

TRIAL_TOKENS = 12
"""The length of each text."""
FIRST = 6
"""Tokens of *main* in the first of our calls."""
SHARED = 9
"""Tokens that *main* and *side* share."""


@dataclass(frozen=True, slots=True)
class TrialTexts:
    """The three texts, each of ``TRIAL_TOKENS`` tokens."""

    main: tuple[TokenId, ...]
    side: tuple[TokenId, ...]
    beside: tuple[TokenId, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """Logits after each token, ``[TRIAL_TOKENS, vocabulary]``; of *side* where it differs."""

    main: torch.Tensor
    side: torch.Tensor
    beside: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Ours(Own):
    """The same logits of our calls, and the attention arguments of the layers."""

    calls: int
    """Calls of attention in one call of the model."""
    layers: Mapping[int, LayerShape]
    windows: Mapping[int, int | None]


def trial_texts(ids: Sequence[int]) -> TrialTexts:
    """Make texts of these tokens, which may be few."""

    def text(first: int) -> tuple[TokenId, ...]:
        return tuple(TokenId(ids[(first + n * 7919) % len(ids)]) for n in range(TRIAL_TOKENS))

    main = text(0)
    return TrialTexts(main, main[:SHARED] + text(3)[SHARED:], text(5))


def call_plainly(module: PreTrainedModel, texts: TrialTexts, *, at_once: bool = False) -> Own:
    """Return the logits of a model for texts alone; ``at_once`` passes each text whole."""
    tokens = torch.tensor([texts.main, texts.side, texts.beside], device=module.device)
    call: Callable[..., Any] = module
    if at_once:
        main, side, beside = call(input_ids=tokens, use_cache=False).logits
        return Own(main, side[SHARED:], beside)
    first = call(input_ids=tokens[:, :-1], use_cache=True)
    if kept := getattr(first, "past_key_values", None):
        last = call(input_ids=tokens[:, -1:], past_key_values=kept, use_cache=True).logits
    else:  # the whole text for each token
        last = call(input_ids=tokens).logits[:, -1:]
    main, side, beside = torch.cat([first.logits, last], 1)
    return Own(main, side[SHARED:], beside)


def call_as_we_do(
    module: PreTrainedModel,
    texts: TrialTexts,
    kernel: AttentionKernel,
    mixers: Sequence[Mixer] = (),
) -> Ours:
    """Return the logits that an engine would get, and the attention arguments of the layers."""
    memory = _Memory(kernel, module.dtype, module.device, len(mixers))
    slots = np.arange(3 * TRIAL_TOKENS)[::-1].copy()  # their order should not matter
    first_slots, other_slots = slots[: 2 * TRIAL_TOKENS], slots[2 * TRIAL_TOKENS :]
    main, side, beside = texts.main, texts.side, texts.beside
    tree = _Tree(
        tokens=(*main[FIRST:SHARED], main[9], side[9], main[10], main[11], side[10], side[11]),
        parents=(-1, 0, 1, 2, 2, 3, 5, 4, 7),
        slots=first_slots,
        committed=FIRST,
    )
    if mixers:
        memory.call(module, _chain(beside, other_slots), mix=try_continuing)
    text = Recurrence()
    start, whole = memory.call(
        module, _chain(main[:FIRST], first_slots, text), _chain(beside, other_slots)
    )
    text.commit(range(FIRST))
    (begun,) = memory.call(module, tree.part(0, 6, text))
    ends = [tree.after((0, 1, 2, 3, 5), (6,), text), tree.after((0, 1, 2, 4), (7, 8), text)]
    rest = torch.cat(memory.call(module, *(ends if mixers else [tree.part(6, 9)])))
    return Ours(
        main=torch.cat([start, begun[:4], begun[5:], rest[:1]]),
        side=torch.cat([begun[4:5], rest[1:]]),
        beside=whole,
        calls=memory.calls,
        layers=memory.layers,
        windows=memory.windows,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """New tokens after a text of ``committed`` tokens, each after another (-1: the text)."""

    tokens: tuple[TokenId, ...]
    parents: tuple[int, ...]
    slots: np.ndarray[Any, np.dtype[np.int64]]
    committed: int

    def part(self, first: int, last: int, text: Recurrence | None = None) -> Segment:
        """Return the nodes from ``first`` up to ``last``, after those before them were computed."""
        sees = np.eye(len(self.tokens), dtype=np.bool_)
        depths: list[int] = []
        for node, parent in enumerate(self.parents):
            depths.append(0 if parent < 0 else depths[parent] + 1)
            if parent >= 0:
                sees[node] |= sees[parent]
        return Segment(
            reservations=(_rows(self.slots[: self.committed + last], last - first),),
            num_committed=self.committed,
            tokens=self.tokens[first:last],
            depths=tuple(depths[first:last]),
            ancestors=sees[first:last, :last],
            nodes_needing_logits=_backwards(last - first),
            earlier_depths=tuple(depths[:first]),
            recurrence=text,
            trunk_length=SHARED - FIRST,
        )

    def after(self, path: tuple[int, ...], nodes: tuple[int, ...], text: Recurrence) -> Segment:
        """Return nodes in a row, after a path of nodes that has become text."""
        rows = [*range(self.committed), *[self.committed + node for node in (*path, *nodes)]]
        tokens = tuple(self.tokens[node] for node in nodes)
        after = None if text.computed is None else Recurrence(text.computed.after(path))
        return _chain(tokens, self.slots[rows], after, committed=self.committed + len(path))


def _chain(
    tokens: tuple[TokenId, ...],
    slots: np.ndarray[Any, np.dtype[np.int64]],
    text: Recurrence | None = None,
    *,
    committed: int = 0,
) -> Segment:
    """Make a segment of certain tokens in a row, after ``committed`` ones.

    ``slots`` are those of the whole text. It requests all logits, which the trial compares.
    """
    new = len(tokens)
    return Segment(
        reservations=(_rows(slots[: committed + new], new),),
        num_committed=committed,
        tokens=tokens,
        depths=tuple(range(new)),
        ancestors=None,
        nodes_needing_logits=_backwards(new),
        recurrence=text,
        trunk_length=new,
    )


def _backwards(new: int) -> tuple[int, ...]:
    """Return all tokens, in an order in which no model returns their logits by default."""
    return tuple(reversed(range(new)))


def _rows(seen: np.ndarray[Any, np.dtype[np.int64]], new: int) -> Reservation:
    return Reservation(0, seen, new, SlotCopies.none())


class _Memory:
    """Keys and values of a few tokens, for layers that appear as they are called."""

    def __init__(
        self, kernel: AttentionKernel, dtype: torch.dtype, device: torch.device, mixers: int
    ) -> None:
        self._kernel, self._dtype, self._device = kernel, dtype, device
        self._mixers = mixers
        self._slots: dict[int, LayerSlots] = {}
        self._attentions: dict[int | None, Attention] = {}
        self._batch = StepBatch(())
        self.layers: dict[int, LayerShape] = {}
        self.windows: dict[int, int | None] = {}
        self.calls = 0

    def call(
        self, module: PreTrainedModel, *segments: Segment, mix: Mix | None = None
    ) -> list[torch.Tensor]:
        """Return the logits of all new tokens by segment, ``[tokens, vocabulary]``.

        ``mix`` computes the recurrent layers, in place of an engine's ``RecurrentStep``.
        """
        self._batch = StepBatch(segments)
        self._attentions = {}
        self.calls = 0
        step = None
        if self._mixers and mix is None:
            mix = step = RecurrentStep(self._batch, self._mixers, self._device)
        logits: torch.Tensor = call_packed(module, self._batch, self, self._device, mix).logits[0]
        if step is not None:
            step.finish()
        counts = [len(segment.tokens) for segment in segments]
        if len(logits) != sum(counts):
            raise ModelError(
                f"{type(module).__name__} does not give the logits of chosen tokens alone",
                hint="use another model",
            )
        return [rows.flip(0) for rows in torch.split(logits, counts)]

    def attend(self, call: LayerCall) -> torch.Tensor:
        """Record the arguments of a layer, and compute it as ``PackedAttention`` would."""
        self.calls += 1
        query, key, value = (part[0].transpose(0, 1) for part in (call.query, call.key, call.value))
        self.windows[call.layer] = call.window
        self.layers[call.layer] = LayerShape(key.shape[1], key.shape[2], value.shape[2])
        slots = self._slots.setdefault(call.layer, self._empty(self.layers[call.layer]))
        slots.write(self._locate_slots(), key, value)
        return self._attention(call.window).attend(query, slots, call.scores)[None]

    def _empty(self, shape: LayerShape) -> LayerSlots:
        def tensor(size: int) -> SlotTensor:
            return SlotTensor(
                3 * TRIAL_TOKENS, shape.heads, size, dtype=self._dtype, device=self._device
            )

        return LayerSlots(tensor(shape.key_size), tensor(shape.value_size))

    def _locate_slots(self) -> torch.Tensor:
        return torch.from_numpy(self._batch.new_slots(0)).to(self._device)

    def _attention(self, window: int | None) -> Attention:
        if window not in self._attentions:
            seen = visible_slots(self._batch, 0, window)
            self._attentions[window] = open_attention(
                self._kernel, seen, dtype=self._dtype, device=self._device
            )
        return self._attentions[window]
