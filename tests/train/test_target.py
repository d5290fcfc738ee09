"""The output of a frozen target for texts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from guided.train.examples import Example
from guided.train.target import FrozenTarget, Seen
from tests.engine.tiny_models import make_model

_TEXTS = [
    Example(str(length), tuple(range(3, 3 + length)), (True,) * length) for length in (9, 2, 5)
]


def _alone(model: Any, example: Example, taps: tuple[int, ...]) -> Seen:
    with torch.no_grad():
        output = model.model(torch.tensor([example.tokens]), output_hidden_states=True)
    tapped = [output.hidden_states[tap][0] for tap in taps]
    last = output.last_hidden_state[0]
    return Seen(last, torch.cat(tapped, -1) if tapped else last[:, :0])


@pytest.mark.parametrize("taps", [(), (1,), (0, 1)])
def test_texts_of_a_batch_are_seen_as_if_each_were_alone(taps: tuple[int, ...]) -> None:
    model = make_model()
    for example, seen in zip(_TEXTS, FrozenTarget(model, taps=taps).see(_TEXTS), strict=True):
        alone = _alone(model, example, taps)
        torch.testing.assert_close(seen.last, alone.last)
        torch.testing.assert_close(seen.taps, alone.taps)


@pytest.mark.parametrize(("kept_bytes", "calls"), [(1 << 20, 1), (9 * 32 * 8, 2), (0, 2)])
def test_what_was_computed_is_kept_while_there_is_room(kept_bytes: int, calls: int) -> None:
    target = FrozenTarget(make_model(), kept_bytes=kept_bytes)
    computed: list[int] = []
    decoder: Any = target.module.base_model
    decoder.register_forward_hook(
        lambda _module, _inputs, output: computed.append(len(output.last_hidden_state))
    )
    first, again = target.see(_TEXTS), target.see(_TEXTS)
    assert len(computed) == calls
    if 0 < kept_bytes < 1 << 20:
        assert computed == [3, 2]  # the longest one filled all the room
    for one, other in zip(first, again, strict=True):
        torch.testing.assert_close(one.last, other.last)
