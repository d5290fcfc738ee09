"""Our own forward pass gives the logits of transformers' own code without a cache."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from guided.model.cpu import WeightFormat, take_decoder
from tests.unit.model.cpu.paging import Pages, Piece, Text
from tests.unit.model.cpu.rounding import rounded_to_int8
from tests.unit.model.cpu.small_models import CONFIGS, make_model, own_logits

FIRST, SECOND = (np.random.default_rng(seed).integers(0, 160, 48) for seed in (2, 3))
CHUNKS = {
    "at once": [0, 48],
    "one by one": list(range(49)),
    "in threes": list(range(0, 49, 3)),
    "wide, then narrow": [0, 20, 24, 25, 30, 32, 48],
}
TREE = (None, 0, 0, 1, 2, None, 5)
TREE_TOKENS = np.array([3, 14, 15, 92, 65, 35, 89])


def pages(model: PreTrainedModel, weight_format: WeightFormat = WeightFormat.FP32) -> Pages:
    config = model.config
    decoder = take_decoder(model, weight_format)
    return Pages(decoder, kv_heads=config.num_key_value_heads, size=config.head_dim)


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS.keys())
@pytest.mark.parametrize("name", CONFIGS)
def test_a_chain_equals_transformers_however_it_is_cut(name: str, chunks: list[int]) -> None:
    model = make_model(name)
    expected = own_logits(model, FIRST)
    book, text = pages(model), Text()
    found = [book.logits(Piece(text, FIRST[start:stop]))[0] for start, stop in pairwise(chunks)]
    assert difference(torch.cat(found), expected) < 1e-5


@pytest.mark.parametrize("behind", [0, 2, 30])
@pytest.mark.parametrize("name", CONFIGS)
def test_each_node_of_a_tree_sees_its_own_path(name: str, behind: int) -> None:
    model = make_model(name)
    expected = torch.stack(
        [own_logits(model, np.concatenate([FIRST[:behind], path]))[-1] for path in paths()]
    )
    book, text = pages(model), Text()
    if behind:
        book.logits(Piece(text, FIRST[:behind]))
    (found,) = book.logits(Piece(text, TREE_TOKENS, TREE))
    assert difference(found, expected) < 1e-5


def test_a_small_tree_goes_through_the_kernel_for_few_tokens() -> None:
    model = make_model("llama")
    tokens, parents = np.array([3, 14, 15]), (None, 0, 0)
    expected = torch.stack(
        [
            own_logits(model, np.concatenate([FIRST[:9], path]))[-1]
            for path in ([3], [3, 14], [3, 15])
        ]
    )
    book, text = pages(model), Text()
    book.logits(Piece(text, FIRST[:9]))
    (found,) = book.logits(Piece(text, tokens, parents))
    assert difference(found, expected) < 1e-5


def paths() -> list[NDArray[np.int64]]:
    """The tokens from the root to each node of the tree."""
    found: list[list[int]] = []
    for token, parent in zip(TREE_TOKENS.tolist(), TREE, strict=True):
        found.append([*([] if parent is None else found[parent]), token])
    return [np.array(path) for path in found]


@pytest.mark.parametrize("name", CONFIGS)
def test_sequences_of_one_call_do_not_see_each_other(name: str) -> None:
    model = make_model(name)
    of_first, of_second = own_logits(model, FIRST), own_logits(model, SECOND)
    book, first, second, third = pages(model), Text(), Text(), Text()
    a, b = book.logits(Piece(first, FIRST[:20]), Piece(second, SECOND[:2]))
    c, d, e = book.logits(
        Piece(first, FIRST[20:21]), Piece(second, SECOND[2:14]), Piece(third, SECOND[:1])
    )
    f, g = book.logits(Piece(second, SECOND[14:16]), Piece(first, FIRST[21:24]))
    assert difference(torch.cat([a, c, g]), of_first[:24]) < 1e-5
    assert difference(torch.cat([b, d, f]), of_second[:16]) < 1e-5
    assert difference(e, of_second[:1]) < 1e-5


def test_only_the_asked_logits_come_back_in_the_order_asked() -> None:
    model = make_model("llama")
    book, text = pages(model), Text()
    (every,) = book.logits(Piece(text, FIRST))
    expected = own_logits(make_model("llama"), FIRST)
    assert every.shape == (48, 160)
    assert difference(every[[40, 3]], expected[[40, 3]]) < 1e-5


@pytest.mark.parametrize(
    ("weight_format", "bound"), [(WeightFormat.BF16, 0.05), (WeightFormat.INT8, 1e-3)]
)
@pytest.mark.parametrize("name", CONFIGS)
def test_narrow_weights_compute_what_their_numbers_say(
    name: str, weight_format: WeightFormat, bound: float
) -> None:
    """int8 loses nothing but the rounding of the weights; bf16 rounds activations as well."""
    rounded = make_model(name)
    for part in rounded.modules():
        if isinstance(part, torch.nn.Linear):
            # A copy, because an embedding that is shared with the head keeps its own numbers.
            part.weight = torch.nn.Parameter(narrow(part.weight, weight_format), False)
    expected = own_logits(rounded, FIRST)
    (found,) = pages(make_model(name), weight_format).logits(Piece(Text(), FIRST))
    assert difference(found, expected) < bound


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("weight_format", [WeightFormat.BF16, WeightFormat.INT8])
def test_no_instruction_set_refuses_a_format(weight_format: WeightFormat) -> None:
    expected = own_logits(make_model("llama"), FIRST)
    book, text = pages(make_model("llama"), weight_format), Text()
    found = [book.logits(Piece(text, FIRST[at]))[0] for at in (slice(40), slice(40, 48))]
    assert difference(torch.cat(found), expected) < 0.05
    (at_once,) = book.logits(Piece(Text(), FIRST))
    assert torch.equal(torch.cat(found), at_once)


def narrow(weight: torch.Tensor, weight_format: WeightFormat) -> torch.Tensor:
    if weight_format is WeightFormat.BF16:
        return weight.bfloat16().float()
    return rounded_to_int8(weight)


def test_int8_gives_the_same_numbers_whatever_else_is_in_the_call() -> None:
    book, alone, beside = pages(make_model("llama"), WeightFormat.INT8), Text(), Text()
    other = Text()
    for token in range(6):
        (by_itself,) = book.logits(Piece(alone, FIRST[token : token + 1]))
        in_company, _ = book.logits(
            Piece(beside, FIRST[token : token + 1]), Piece(other, SECOND[token * 5 : token * 5 + 5])
        )
        assert torch.equal(by_itself, in_company)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS.keys())
@pytest.mark.parametrize("weight_format", [WeightFormat.BF16, WeightFormat.INT8])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_the_same_to_the_last_bit_however_a_text_is_cut(
    name: str, weight_format: WeightFormat, chunks: list[int]
) -> None:
    """Neither the calls, nor other texts in them, nor guesses change a bit."""
    book = pages(make_model(name), weight_format)
    at_once, text, other = Text(), Text(), Text()
    (expected,) = book.logits(Piece(at_once, FIRST))
    for start, stop in pairwise(chunks):
        beside = [Piece(other, SECOND[start:stop])]
        if start % 8 == 0:
            beside.append(Piece(other, TREE_TOKENS, TREE))
        found = book.logits(*beside[1:], Piece(text, FIRST[start:stop]), beside[0])[-2]
        assert torch.equal(found, expected[start:stop]), f"{start} to {stop}"


def test_a_cache_of_bf16_holds_rounded_rows() -> None:
    model = make_model("llama")
    expected, config = own_logits(model, FIRST), model.config
    book = Pages(
        take_decoder(model, WeightFormat.FP32),
        kv_heads=config.num_key_value_heads,
        size=config.head_dim,
        dtype=torch.bfloat16,
    )
    text = Text()
    found = [book.logits(Piece(text, FIRST[i : i + 1]))[0] for i in range(48)]
    assert 1e-4 < difference(torch.cat(found), expected) < 0.05


@pytest.mark.parametrize("weight_format", WeightFormat)
def test_what_is_not_a_number_shows_in_the_logits(weight_format: WeightFormat) -> None:
    model = make_model("llama")
    embedding = model.get_input_embeddings()
    assert isinstance(embedding.weight, torch.Tensor)
    embedding.weight[7, 5] = float("nan")
    found, sound = pages(model, weight_format).logits(
        Piece(Text(), np.array([7])), Piece(Text(), FIRST[FIRST != 7])
    )
    assert bool(found.isnan().all())
    assert not bool(sound.isnan().any())
