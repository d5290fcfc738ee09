"""Draft models change how many calls of the target an answer takes, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from guided.drafters import LookupDrafter
from guided.drafters.draft_model import DraftModel
from guided.spec import Forcing, GenerationRequest, Sampling
from tests.engine.draft_models import checked_answers, make_draft
from tests.engine.finite_language import make_vocabulary
from tests.engine.test_trees import repeating_requests, tokens
from tests.engine.tiny_models import answers, make_engine, make_model

TREE = (3, 2, 1, 1)
NARROW: dict[str, Any] = {"step_tokens": 16, "max_batch": 4}


def drafting(model: Any, *drafts: DraftModel, staged: bool = False, **options: Any) -> Any:
    lookup = (LookupDrafter(make_vocabulary()),) if staged else ()
    settings = {"widest_draft": 16} | NARROW | options
    return make_engine(model, drafters=(*lookup, *drafts), **settings)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("target", "draft", "widths"),
    [
        ("llama", "llama", TREE),
        ("llama", "mistral_sliding", TREE),
        ("mistral_sliding", "llama", (1, 1, 1)),
        ("gemma3_sliding", "gemma2_soft_capped", (2, 2)),
        ("qwen3", "gpt2", TREE),
        ("gpt2", "gemma3_sliding", (1, 1, 1, 1)),
    ],
)
def test_answers_with_a_draft_model_are_those_without(
    target: str, draft: str, widths: Sequence[int], temperature: float
) -> None:
    """A mixed batch over windows shorter than the texts; two requests are cancelled on the way."""
    model = make_model(target)
    asked = repeating_requests(Forcing.CANONICAL, temperature)
    plain = answers(make_engine(model, **NARROW), asked)
    given_up = {name: GenerationRequest(prompt=name, max_tokens=90) for name in ("one", "two")}
    # The same weights, which are right, and others, which are mostly wrong.
    for seed in (0, 1):
        drafter = make_draft(make_model(draft, seed=seed), widths=widths, step_tokens=16)
        engine = drafting(model, drafter, staged=True)
        cancelled = {2: "one", 3: "two"}
        found = checked_answers(engine, [drafter], given_up | asked, cancelled=cancelled)
        assert tokens(found) == tokens(plain)
        assert engine.stats().cancelled == 2
        assert drafter.num_calls > 0


def test_a_draft_model_that_is_the_target_is_always_right() -> None:
    model = make_model()
    request = GenerationRequest(prompt="hello name", max_tokens=60)
    plain = answers(make_engine(model), {"r": request})["r"]
    drafter = make_draft(make_model(), widths=(1, 1, 1, 1))
    found = checked_answers(drafting(model, drafter), [drafter], {"r": request})["r"]
    usage = found.usage
    assert found.tokens == plain.tokens
    # Each call of the target gives four drafted tokens and one of its own.
    assert usage.model_calls == -(-len(found.tokens) // 5)
    assert usage.accepted_tokens == usage.drafted_tokens
    assert drafter.num_calls == 4 * usage.model_calls


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_it_draws_with_the_noise_of_the_target(temperature: float) -> None:
    model = make_model()
    sampling = Sampling(temperature=temperature, top_p=0.9, seed=3)
    request = GenerationRequest(prompt="hello name", max_tokens=40, sampling=sampling)
    drafter = make_draft(make_model())
    found = checked_answers(drafting(model, drafter), [drafter], {"r": request})["r"]
    assert found.usage.accepted_tokens == found.usage.drafted_tokens > 0
