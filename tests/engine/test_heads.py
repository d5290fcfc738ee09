"""Heads on hidden states change how many model calls an answer takes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from guided.decoding import CostCurve, Drafter, DraftRequest
from guided.drafters import LookupDrafter
from guided.drafters.heads.eagle import EagleDrafter
from guided.drafters.heads.eagle_rows import EagleRows
from guided.drafters.heads.medusa import MedusaDrafter
from guided.model.cpu import WeightFormat
from guided.spec import Forcing, GenerationRequest, Sampling, TokenId
from tests.engine.finite_language import TOKEN_BYTES, make_vocabulary
from tests.engine.random_heads import engine_with, random_eagle_drafter, random_medusa
from tests.engine.right_heads import (
    circle,
    circling_model,
    right_eagle,
    right_medusa,
    tapping_eagle,
)
from tests.engine.test_trees import calls, requests, tokens
from tests.engine.tiny_models import answers, drain, make_engine, make_model, render
from tests.kit.draft_context import draft_context
from tests.kit.effort import crossed

# The model is so slow that the time of drafting, which is measured, does not count.
RISING = CostCurve(((1, 10.0), (8, 11.0), (16, 13.0), (64, 40.0)))


HEADS: dict[str, Callable[[], tuple[Drafter, ...]]] = {
    "medusa": lambda: (random_medusa(),),
    "eagle": lambda: (random_eagle_drafter(),),
    "eagle 3.1": lambda: (random_eagle_drafter(fc_norm=True, norm_output=True),),
    "both, after looking up": lambda: (
        LookupDrafter(make_vocabulary()),
        random_eagle_drafter(),
        random_medusa(),
    ),
}


def check(drafters: tuple[Drafter, ...]) -> None:
    """The caches of heads are consistent, and every text released its rows."""
    for drafter in drafters:
        if isinstance(drafter, EagleDrafter):
            drafter.check()
            assert drafter.num_open == 0


MODELS: Sequence[tuple[str, WeightFormat | None, float]] = (
    ("llama", None, 0.0),
    ("llama", None, 1.0),
    ("gemma3_sliding", None, 1.0),
    ("llama", WeightFormat.FP32, 0.0),
)


@pytest.mark.parametrize(("heads", "target"), crossed(HEADS, MODELS))
def test_answers_with_heads_equal_those_without(
    heads: str, target: tuple[str, WeightFormat | None, float]
) -> None:
    """Random heads, mostly wrong, in batches that begin and end at different steps."""
    architecture, weights, temperature = target

    def model() -> Any:
        # Our own forward pass takes the weights out of the model.
        return make_model(architecture, dtype=torch.float32)

    own = {} if weights is None else {"weights": weights}
    narrow = {"step_tokens": 16, "max_batch": 3, **own}
    asked = requests(Forcing.CANONICAL, temperature)
    plain = answers(make_engine(model(), **narrow), asked)
    drafters = HEADS[heads]()
    drafted = answers(engine_with(model(), drafters, **narrow), asked)
    assert tokens(drafted) == tokens(plain)
    assert sum(result.usage.drafted_tokens for result in drafted.values()) > 0
    for key, result in drafted.items():
        assert result.usage.forced_tokens == plain[key].usage.forced_tokens
        assert result.finish_reason is plain[key].finish_reason
    check(drafters)


@pytest.mark.parametrize(
    ("kind", "weights"), crossed(["medusa", "eagle"], [None, WeightFormat.FP32])
)
def test_right_heads_are_believed(kind: str, weights: WeightFormat | None) -> None:
    """Each call but that of the prompt takes as many tokens as were drafted in depth."""
    asked = {
        prompt: GenerationRequest(prompt=prompt, max_tokens=41)
        for prompt in ("hello name", "ab", "a prompt of some more tokens than are read at once")
    }
    own = {} if weights is None else {"weights": weights}
    plain = answers(make_engine(circling_model(), **own), asked)
    assert calls(plain) == 3 * 41
    for result in plain.values():
        following = circle()[list(result.tokens)].tolist()
        assert following[:-1] == list(result.tokens[1:])
    drafter = right_drafter(kind)
    drafted = answers(engine_with(circling_model(), (drafter,), **own), asked)
    assert tokens(drafted) == tokens(plain)
    # A call gives one token of its own and four drafted ones; there is room for four levels.
    assert calls(drafted) == 3 * (1 + 8)


def right_drafter(kind: str) -> Drafter:
    size = len(TOKEN_BYTES)
    if kind == "medusa":
        return MedusaDrafter(right_medusa(4), vocabulary_size=size, widths=(1,))
    return EagleDrafter(right_eagle(), vocabulary_size=size, cache_tokens=500)


@pytest.mark.parametrize("weights", [None, WeightFormat.FP32])
def test_taps_of_the_right_tokens_are_read(weights: WeightFormat | None) -> None:
    """Only the first drafted token of each call is right, from a head that reads only taps.

    Long prompts are read in pieces, some of them larger than the number of rows that wait.
    """
    own = {"step_tokens": 30} | ({} if weights is None else {"weights": weights})
    asked = {
        prompt: GenerationRequest(prompt=prompt, max_tokens=41)
        for prompt in ("ab", "a prompt of some more tokens than are read at once, twice as many")
    }
    drafter = EagleDrafter(
        tapping_eagle(), vocabulary_size=len(TOKEN_BYTES), cache_tokens=500, width=1
    )
    drafted = answers(engine_with(circling_model(), (drafter,), **own), asked)
    for result in drafted.values():
        assert result.usage.accepted_tokens == 20
        assert len(result.tokens) == 41
    assert calls(drafted) == (1 + 20) + (3 + 20)


def test_widths_give_a_cartesian_product() -> None:
    """If one token of each head is drafted, the tree is a chain."""
    model = circling_model()
    asked = {"r": GenerationRequest(prompt="ab", max_tokens=21)}
    chain = MedusaDrafter(right_medusa(4), vocabulary_size=len(TOKEN_BYTES), widths=(1,))
    usage = answers(engine_with(model, (chain,)), asked)["r"].usage
    assert usage.drafted_tokens == usage.accepted_tokens == 16
    assert usage.model_calls == 1 + 4
    wide = MedusaDrafter(right_medusa(2), vocabulary_size=len(TOKEN_BYTES), widths=(3, 2))
    usage = answers(engine_with(model, (wide,)), asked)["r"].usage
    assert usage.drafted_calls == usage.model_calls - 1 == 7
    # Three after the root and two after each of them.
    assert usage.drafted_tokens == 7 * (3 + 3 * 2)


def test_a_reduced_vocabulary_says_nothing_of_other_tokens() -> None:
    """A head that knows every second token of the circle drafts at most one in each call."""
    model = circling_model()
    asked = {"r": GenerationRequest(prompt="ab", max_tokens=41)}
    text = answers(make_engine(model), asked)["r"].tokens
    known = sorted({int(token) for token in text[::2]})
    drafter = EagleDrafter(right_eagle(known), vocabulary_size=len(TOKEN_BYTES), cache_tokens=500)
    result = answers(engine_with(model, (drafter,)), asked)["r"]
    assert result.tokens == text
    assert 10 <= result.usage.accepted_tokens <= 20


class Counted(EagleDrafter):
    """Counts failed calls, after which the engine asks for one text at a time."""

    failed = 0

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        self.failed += 1
        super().propose(drafts)
        self.failed -= 1


def test_a_head_without_room_drafts_for_some() -> None:
    """Texts without room in the head's cache are read again, and their answers are the same."""
    model = circling_model()
    asked = {
        f"{number} name": GenerationRequest(prompt=f"{number} name", max_tokens=30)
        for number in range(6)
    }
    plain = answers(make_engine(model), asked)
    drafter = Counted(right_eagle(), vocabulary_size=len(TOKEN_BYTES), cache_tokens=64)
    drafted = answers(engine_with(model, (drafter,)), asked)
    assert tokens(drafted) == tokens(plain)
    assert 6 * 7 < calls(drafted) < calls(plain)
    assert drafter.failed == 0
    check((drafter,))


@pytest.mark.parametrize("fault_at", [1, 2, 3, 8, 9])
def test_a_fault_while_rows_are_kept_ends_with_its_step(
    monkeypatch: pytest.MonkeyPatch, fault_at: int
) -> None:
    """Whichever text has no memory: all begin again, and the engine drafts on."""
    model = circling_model()
    asked = {
        f"{number} name": GenerationRequest(prompt=f"{number} name", max_tokens=30)
        for number in range(3)
    }
    plain = answers(make_engine(model), asked)
    drafter = Counted(right_eagle(), vocabulary_size=len(TOKEN_BYTES), cache_tokens=256)
    stores = 0
    store = EagleRows._store

    def failing(rows: EagleRows, *text: Any) -> bool:
        nonlocal stores
        stores += 1
        if stores == fault_at:
            text[0].blocks.reserve(len(text[0].tokens))
            raise RuntimeError("CUDA out of memory")
        return store(rows, *text)

    monkeypatch.setattr(EagleRows, "_store", failing)
    drafted = answers(engine_with(model, (drafter,)), asked)
    assert stores > fault_at
    assert tokens(drafted) == tokens(plain)
    assert drafter.failed == 1
    assert calls(drafted) < calls(plain) / 2
    check((drafter,))


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
def test_texts_that_start_over_keep_what_heads_know(kind: str) -> None:
    """If the cache is too small for all, answers give way, are read again, and stay the same."""
    model = circling_model()
    asked = {
        f"{number} name": GenerationRequest(prompt=f"{number} name", max_tokens=40)
        for number in range(4)
    }
    small = {"cache_tokens": 100, "step_tokens": 8, "max_batch": 4}
    plain = answers(make_engine(model, **small), asked)
    drafter = right_drafter(kind)
    engine = engine_with(model, (drafter,), **small)
    drafted = answers(engine, asked)
    assert engine.stats().preempted > 0
    assert tokens(drafted) == tokens(plain)
    usages = [result.usage for result in drafted.values()]
    drafts = sum(usage.drafted_calls for usage in usages)
    assert sum(usage.accepted_tokens for usage in usages) > 3 * drafts
    check((drafter,))


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
def test_sibling_samples_draft_from_where_they_part(kind: str) -> None:
    model = circling_model()
    sampling = Sampling(temperature=2.0, seed=4)
    asked = {"r": GenerationRequest(prompt="ab", max_tokens=30, sampling=sampling, n=3)}
    plain = answers(make_engine(model), asked)["r"]
    drafter = right_drafter(kind)
    drafted = answers(engine_with(model, (drafter,)), asked)["r"]
    assert [one.tokens for one in drafted.candidates] == [one.tokens for one in plain.candidates]
    assert drafted.usage.accepted_tokens > 0
    check((drafter,))


@pytest.mark.parametrize("extra", ["", "x"])
def test_rows_of_a_prompt_are_kept_as_its_keys_are(extra: str) -> None:
    """The model takes whole blocks of the prompt from its cache, and the head from its rows.

    A row needs the token after its own. So if the same text ends with a block, the model's cache
    has one block more than the head's, and the rows begin after it.
    """
    drafter = random_eagle_drafter()
    engine = engine_with(make_model(dtype=torch.float32), (drafter,), block_size=8)
    shared = render("Some words that come first in every prompt of them" + extra, None)
    assert len(shared) % 8 == len(extra)
    asked = {
        name: GenerationRequest(prompt=f"{bytes_of(shared)}{name}", max_tokens=12)
        for name in ("x y", "y x")
    }
    found = {name: answers(engine, {name: one})[name] for name, one in asked.items()}
    assert [one.usage.reused_tokens for one in found.values()] == [0, len(shared) // 8 * 8]
    plain = answers(make_engine(make_model(dtype=torch.float32)), asked)
    assert tokens(found) == tokens(plain)
    check((drafter,))
    known = (len(shared) - 1) // 8 * 8
    for salt, first, rows in (("", shared[0], known), ("other", shared[0], 0), ("", 7, 0)):
        prompt = (TokenId(first), *shared[1:], TokenId(5), TokenId(6))
        # The engine prefixes a salt with the number of the adapter.
        memory = drafter.open(draft_context(prompt=prompt, cache_salt=f"0:{salt}"))
        assert memory.next_row == rows
        memory.end(())


def bytes_of(text: Sequence[TokenId]) -> str:
    return b"".join(TOKEN_BYTES[token] or b"" for token in text).decode()


def test_a_cancelled_text_gives_its_rows_back() -> None:
    drafter = EagleDrafter(right_eagle(), vocabulary_size=len(TOKEN_BYTES), cache_tokens=500)
    engine = engine_with(circling_model(), (drafter,))
    for name in ("a", "b"):
        engine.submit(name, GenerationRequest(prompt="hello name", max_tokens=60))
    for _ in range(4):
        engine.step()
    assert drafter.num_open == 2
    engine.cancel("a")
    assert drafter.num_open == 1
    drain(engine)
    check((drafter,))


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
def test_what_does_not_pay_is_not_drafted(kind: str) -> None:
    """With costs, heads that are certain draft a chain, and no wrong token."""
    model = circling_model()
    asked = {"r": GenerationRequest(prompt="ab", max_tokens=41)}
    usage = answers(engine_with(model, (right_drafter(kind),), costs=RISING), asked)["r"].usage
    assert usage.accepted_tokens >= 30
    assert usage.drafted_tokens - usage.accepted_tokens <= 8
