"""One model call, as its recurrent layers see it: each mixer is called stretch by stretch.

A mixer's input is the packed row of all sequences, and so is its output. In between it reads each
stretch after the state that comes before it, equally long ones together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from guided.kv.recurrence import Recurrence
from guided.model.batch import StepBatch
from guided.model.recurrent.calling_forms import Outputs
from guided.model.recurrent.mixers import Mix, Mixer
from guided.model.recurrent.states import ComputedSegment, LayerState, RecurrentState
from guided.model.recurrent.stretches import Stretch, cut_batch

__all__ = ["RecurrentStep", "mixing", "running_mix", "try_continuing"]

_ROUNDING = 1e-5
"""The relative difference of states that counts as none."""

_running: ContextVar[Mix | None] = ContextVar("guided_mix", default=None)


@contextmanager
def mixing(mix: Mix | None) -> Iterator[None]:
    """Have ``mix`` answer the calls of mixers in the block; ``None`` leaves them alone."""
    token = _running.set(mix)
    try:
        yield
    finally:
        _running.reset(token)


def running_mix() -> Mix | None:
    """Return what answers the calls of mixers now."""
    return _running.get()


class RecurrentStep:
    """The recurrent layers in one call; pass it to ``mixing``, then ``finish`` it."""

    def __init__(self, batch: StepBatch, mixers: int, device: torch.device) -> None:
        self._batch = batch
        self._before = [_state(segment.recurrence, mixers) for segment in batch.segments]
        logged = [state.logged for state in self._before]
        has_state = [not state.is_empty for state in self._before]
        self._plan = cut_batch(batch, logged, has_state)
        stretches = self._plan.stretches
        self._rows = [torch.tensor(one.rows, dtype=torch.long, device=device) for one in stretches]
        self._drafted = [len(each.drafted) for each in self._plan.segments]
        drafted = [row for each in self._plan.segments for row in each.drafted]
        self._drafted_rows = torch.tensor(drafted, dtype=torch.long, device=device)
        self._entered: list[torch.Tensor | None] = [None] * mixers
        """The inputs of each mixer for all drafted rows, segment after segment."""
        self._kept: list[dict[int, LayerState]] = [{} for _ in range(mixers)]

    def __call__(self, mixer: Mixer, hidden: torch.Tensor) -> Outputs:
        """Read the packed row, ``[1, packed tokens, size]``, in place of a mixer."""
        assert self._entered[mixer.number] is None, f"mixer {mixer.number} is called twice"
        # Of these rows alone: all of them would stay in memory until the call ends.
        self._entered[mixer.number] = hidden[0, self._drafted_rows]
        packed: list[torch.Tensor] = []
        outputs: Outputs = ()
        for group in self._plan.groups:
            members = [self._plan.stretches[index] for index in group]
            states = [self._state_before(mixer.number, stretch) for stretch in members]
            inputs = torch.stack([self._inputs(mixer.number, hidden, index) for index in group])
            outputs, after = mixer.run(inputs, _side_by_side(states))
            parts = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
            if not packed:
                packed = [part.new_empty((1, hidden.shape[1], *part.shape[2:])) for part in parts]
            for place, (index, stretch) in enumerate(zip(group, members, strict=True)):
                for whole, part in zip(packed, parts, strict=True):
                    whole[0, self._rows[index]] = part[place, stretch.logged :]
                if index in self._plan.followed or index in self._plan.wanted:
                    self._kept[mixer.number][index] = _copy_own_state(after, place, len(group))
        # The state at a branch of a tree is kept until its branches are read, and no longer.
        kept, wanted = self._kept[mixer.number], self._plan.wanted
        self._kept[mixer.number] = {index: kept[index] for index in wanted}
        return packed[0] if isinstance(outputs, torch.Tensor) else tuple(packed)

    def finish(self) -> None:
        """Give each sequence its states, from which its next commit chooses."""
        segments = zip(self._batch.segments, self._before, self._plan.segments, strict=True)
        entered_all = [each for each in self._entered if each is not None]
        # By segment, then by mixer.
        parts = (torch.split(each, self._drafted) for each in entered_all)
        entered_by = zip(*parts, strict=True)
        for (segment, before, cut), entered in zip(segments, entered_by, strict=True):
            length = segment.num_committed + segment.trunk_length
            ended = self._after(cut.ended, length) or RecurrentState(length, before.layers)
            checkpoint = self._after(cut.checkpoint, segment.num_committed + segment.checkpoint)
            if segment.recurrence is not None:
                # Copies: what is kept of one answer must not keep the memory of others.
                own = tuple(each.clone() for each in entered)
                segment.recurrence.computed = ComputedSegment(
                    segment.trunk_length, ended, own, checkpoint
                )

    def _after(self, stretch: int | None, length: int) -> RecurrentState | None:
        if stretch is None:
            return None
        return RecurrentState(length, tuple(kept[stretch] for kept in self._kept))

    def _state_before(self, number: int, stretch: Stretch) -> LayerState:
        if stretch.before is not None:
            return self._kept[number][stretch.before]
        return self._before[stretch.segment].layers[number]

    def _inputs(self, number: int, hidden: torch.Tensor, index: int) -> torch.Tensor:
        stretch = self._plan.stretches[index]
        own = hidden[0, self._rows[index]]
        if not stretch.logged:
            return own
        return torch.cat([self._before[stretch.segment].log[number], own])


def try_continuing(mixer: Mixer, hidden: torch.Tensor) -> Outputs:
    """Find out, in a call of one text, whether a mixer reads several tokens correctly after others.

    Transformers' Mamba forgets what came before them; then it reads one token at a time.
    """
    outputs, state = mixer.run(hidden, ())
    mixer.size = hidden.shape[2]
    middle = hidden.shape[1] // 2
    _, begun = mixer.run(hidden[:, :middle], ())
    errors = []
    for mixer.continues in (True, False):
        _, ended = mixer.run(hidden[:, middle:], _side_by_side([begun]))
        errors.append(_difference(state, ended))
    at_once, mixer.by_token = errors
    mixer.continues = at_once <= max(_ROUNDING, 2 * mixer.by_token)
    return outputs


def _difference(right: LayerState, found: LayerState) -> float:
    """Return the largest difference of a state's tensors, relative to the norm of the right."""
    sizes = [0.0]
    for one, other in zip(right, found, strict=True):
        if one is not None and other is not None:
            # If both are empty, or as large as numbers get, nothing differs.
            apart = torch.where(one == other, 0.0, one.double() - other.double()).norm()
            if apart:
                error = float(apart / one.double().norm())
                sizes.append(error if math.isfinite(error) else math.inf)
    return max(sizes)


def _state(recurrence: Recurrence | None, mixers: int) -> RecurrentState:
    state = None if recurrence is None else recurrence.state
    if state is None:
        return RecurrentState.empty(mixers)
    assert isinstance(state, RecurrentState), state
    return state


def _side_by_side(states: Sequence[LayerState]) -> LayerState:
    """Join the states of several sequences, ``[sequences, ...]``; always a copy."""
    return tuple(
        None if tensors[0] is None else torch.cat(tensors) for tensors in zip(*states, strict=True)
    )


def _copy_own_state(states: LayerState, place: int, count: int) -> LayerState:
    """Return the state of one sequence, in memory of its own if there are others."""
    if count == 1:
        return states
    return tuple(None if tensor is None else tensor[place : place + 1].clone() for tensor in states)
