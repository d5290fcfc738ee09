"""A call with inputs at fixed places gives the results of a plain call."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="triton is not installed")

from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.paged_storage import PagedStorage
from guided.kv.reservation import Reservation, SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.attention import AttentionKernel, PackedAttention, running
from guided.model.batch import Segment, StepBatch
from guided.model.fixed_inputs import FixedInputs
from guided.model.packed_call import call_packed
from guided.model.probe import probe_model
from guided.model.runner import ModelRunner
from guided.spec import TokenId
from tests.engine.tiny_models import make_model
from tests.kit.cuda import HAS_CUDA
from tests.kit.effort import times

DEVICE = torch.device("cuda" if HAS_CUDA else "cpu")
WIDEST = 12
BLOCK = 4


class Texts:
    """Some texts over storages whose last slot is spare."""

    def __init__(self, architecture: str, count: int, slots: int = 240) -> None:
        self.module = make_model(architecture, dtype=torch.float32).to(DEVICE)  # type: ignore[arg-type]
        self.shape = probe_model(self.module, AttentionKernel.TRITON)
        runner = ModelRunner(self.module, vocabulary_size=200, kernel=AttentionKernel.TRITON)
        self.windows = runner.windows
        cache = BlockCache([LayerGroup(slots // BLOCK, window) for window in self.windows], BLOCK)
        runner.open_storages([pool.num_slots for pool in cache.pools])
        self.runner = runner
        self.storages: dict[int | None, PagedStorage] = runner._storages
        self.texts = [cache.open() for _ in range(count)]

    def read(self, tokens: list[list[int]]) -> None:
        """Commit the next tokens of each text."""
        segments = [chain(text, more) for text, more in zip(self.texts, tokens, strict=True)]
        self.runner.forward(StepBatch(tuple(segments)))
        for text, more in zip(self.texts, tokens, strict=True):
            self.runner.copy(text.commit(range(len(more)), [TokenId(t) for t in more]))


def chain(text: SequenceBlocks, tokens: list[int]) -> Segment:
    return tree(text, tokens, [node - 1 for node in range(len(tokens))])


def tree(text: SequenceBlocks, tokens: list[int], parents: list[int]) -> Segment:
    """New tokens, each after another of them or the text (-1), and a choice after each."""
    sees = np.eye(len(tokens), dtype=np.bool_)
    depths: list[int] = []
    for node, parent in enumerate(parents):
        depths.append(0 if parent < 0 else depths[parent] + 1)
        if parent >= 0:
            sees[node] |= sees[parent]
    return Segment(
        num_committed=text.committed,
        reservations=text.reserve(len(tokens)),
        tokens=tuple(map(TokenId, tokens)),
        depths=tuple(depths),
        ancestors=sees,
        nodes_needing_logits=tuple(range(len(tokens))),
    )


@torch.inference_mode()
def by_fixed_inputs(
    texts: Texts, inputs: FixedInputs, batch: StepBatch, width: int
) -> torch.Tensor:
    inputs.fill(batch, width)
    with running(inputs.step(width)):
        output = texts.module(**inputs.arguments(width), use_cache=False)
    logits: torch.Tensor = output.logits[0][: len(batch.logits_rows)]
    return logits


@torch.inference_mode()
def by_itself(texts: Texts, batch: StepBatch) -> torch.Tensor:
    step = PackedAttention.of_batch(
        batch, texts.storages, kernel=AttentionKernel.TRITON, dtype=torch.float32, device=DEVICE
    )
    logits: torch.Tensor = call_packed(texts.module, batch, step, DEVICE).logits[0]
    return logits


@pytest.mark.parametrize("architecture", ["llama", "gemma2_soft_capped", "gemma3_sliding"])
@settings(max_examples=times(1), deadline=None)
@given(data=st.data())
def test_a_call_by_fixed_inputs_says_the_same(architecture: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 2))
    texts = Texts(architecture, count)
    token = st.integers(3, 190)
    texts.read([data.draw(st.lists(token, min_size=1, max_size=9)) for _ in range(count)])
    inputs = FixedInputs(texts.storages, WIDEST, DEVICE)
    for _ in range(2):  # leftovers of an earlier batch are not read
        trees = [data.draw(st.lists(token, min_size=1, max_size=5)) for _ in range(count)]
        segments = [
            tree(
                text,
                tokens,
                [data.draw(st.integers(0, n - 1)) if n else -1 for n in range(len(tokens))],
            )
            for text, tokens in zip(texts.texts, trees, strict=True)
        ]
        batch = StepBatch(tuple(segments))
        assert inputs.take(batch)
        expected = by_itself(texts, batch)
        for width in (len(batch.tokens), WIDEST):
            found = by_fixed_inputs(texts, inputs, batch, width)
            assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)
        for text in texts.texts:
            text.commit((), ())


def test_what_fills_a_batch_up_writes_to_the_spare_slot_alone() -> None:
    texts = Texts("llama", 1)
    texts.read([[5, 6, 7]])
    batch = StepBatch((chain(texts.texts[0], [8, 9]),))
    inputs = FixedInputs(texts.storages, WIDEST, DEVICE)
    (storage,) = texts.storages.values()
    before = [layer.keys.numbers.clone() for layer in storage.layers.values()]
    by_fixed_inputs(texts, inputs, batch, WIDEST)
    changed = {
        slot
        for layer, was in zip(storage.layers.values(), before, strict=True)
        for slot in (layer.keys.numbers != was).any(2).any(1).nonzero()[:, 0].tolist()
    }
    assert changed - {storage.num_slots - 1} == set(batch.new_slots(0).tolist())


def test_a_batch_without_room_is_not_held() -> None:
    texts = Texts("llama", 2, slots=40)
    inputs = FixedInputs(texts.storages, WIDEST, DEVICE)
    first, second = texts.texts
    wide = [chain(first, [3] * WIDEST), chain(second, [3])]
    assert inputs.take(StepBatch((wide[0],)))
    assert not inputs.take(StepBatch(tuple(wide)))


def test_many_tokens_after_a_long_text_are_not_taken() -> None:
    """Each of them would read the text again."""
    texts = Texts("llama", 1)
    inputs = FixedInputs(texts.storages, WIDEST, DEVICE)
    (text,) = texts.texts
    batch = StepBatch((chain(text, [3] * WIDEST),))
    assert inputs.take(batch)
    batch.segments[0].reservations = (
        Reservation(0, np.zeros(30_000, np.int64), 1, SlotCopies.none()),
    )
    assert not inputs.take(batch)
