"""A request chooses how its drafts are verified, in combination with all its other options."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.drafters import LookupDrafter
from guided.spec import GenerationRequest, GenerationResult, Sampling, TokenId, Verification
from tests.engine.finite_language import TOKEN_BYTES, make_vocabulary
from tests.engine.speculation import Guesser
from tests.engine.test_trees import CONSTRAINT
from tests.engine.tiny_models import answers, make_engine, make_model

MODEL = make_model()
WARM = Sampling(temperature=1.5, seed=3)
ASKED = {
    "structure": GenerationRequest(prompt="who?", constraint=CONSTRAINT, max_tokens=40),
    "text": GenerationRequest(prompt="zebra x zebra", max_tokens=18),
    "short": GenerationRequest(prompt="go", constraint=CONSTRAINT, max_tokens=13),
}


def some_logits(tokens: Sequence[TokenId]) -> NDArray[np.float32]:
    seed = zlib.crc32(np.array(tokens, dtype=np.int64).tobytes())
    return np.random.default_rng(seed).normal(0, 3, len(TOKEN_BYTES)).astype(np.float32)


def run(asked: dict[str, GenerationRequest], **options: Any) -> dict[str, GenerationResult]:
    drafters = (LookupDrafter(make_vocabulary()), Guesser(2, 3, some_logits))
    return answers(
        make_engine(MODEL, **({"drafters": drafters, "widest_draft": 16} | options)), asked
    )


def asking(verification: Verification, **changed: Any) -> dict[str, GenerationRequest]:
    return {
        name: replace(each, **({"verification": verification} | changed))
        for name, each in ASKED.items()
    }


@pytest.mark.parametrize("verification", Verification)
def test_greedy_answers_are_the_same_with_all(verification: Verification) -> None:
    plain = run(ASKED, drafters=(), widest_draft=0)
    drafted = run(asking(verification))
    for name, result in drafted.items():
        assert result.tokens == plain[name].tokens
        assert result.finish_reason is plain[name].finish_reason
        assert result.verification is verification
    assert sum(result.usage.accepted_tokens for result in drafted.values()) > 0


@pytest.mark.parametrize("verification", Verification)
def test_sampled_answers_are_of_the_language_and_the_same_in_every_run(
    verification: Verification,
) -> None:
    first, second = (run(asking(verification, sampling=WARM)) for _ in range(2))
    plain = run(asking(verification, sampling=WARM), drafters=(), widest_draft=0)
    for name, result in first.items():
        assert result.tokens == second[name].tokens
        if verification is Verification.COUPLED:
            assert result.tokens == plain[name].tokens
    assert '"name":"' in first["structure"].text
    assert sum(result.usage.accepted_tokens for result in first.values()) > 0


@pytest.mark.parametrize("verification", Verification)
def test_it_goes_with_log_probabilities_stops_penalties_and_several_answers(
    verification: Verification,
) -> None:
    options = {"top_logprobs": 2, "stop": ("nothing",), "sampling": replace(WARM, top_p=0.9)}
    asked = asking(verification, **options)
    asked["several"] = replace(asked["structure"], n=3, best_of=4)
    asked["penalised"] = replace(
        asked["text"], sampling=replace(WARM, no_repeat_ngram_size=2, repetition_penalty=1.5)
    )
    asked["stopped"] = replace(asked["structure"], stop=('":',), include_stop=True)
    found = run(asked)
    for result in found.values():
        assert len(result.logprobs) == len(result.tokens)
        chosen = [one for one in result.logprobs if not one.is_forced]
        assert len(chosen) == result.usage.sampled_tokens or result.candidates
        assert all(one.masked is not None and one.masked <= 0 for one in chosen)
    assert len(found["several"].candidates) == 3
    assert found["stopped"].text.endswith('":')
    tokens = found["penalised"].tokens
    assert len({*pairwise(tokens)}) == len(tokens) - 1


@pytest.mark.parametrize("verification", [Verification.REJECTION, Verification.TYPICAL])
def test_it_goes_with_a_cache_that_has_no_room_for_drafts(verification: Verification) -> None:
    asked = asking(verification, sampling=WARM)
    asked |= {f"{name} again": each for name, each in asked.items()}
    tight = run(asked, cache_tokens=64, max_batch=4)
    assert {name for name, result in tight.items() if result.tokens} == {*asked}


def test_batches_may_mix_them() -> None:
    mixed = {
        f"{name} {verification}": each
        for verification in Verification
        for name, each in asking(verification, sampling=WARM).items()
    }
    found = run(mixed)
    assert all(found[name].verification is each.verification for name, each in mixed.items())
    # Whatever the other requests do, a coupled answer is that of its seed.
    alone = run(asking(Verification.COUPLED, sampling=WARM))
    for name, result in alone.items():
        assert found[f"{name} coupled"].tokens == result.tokens
