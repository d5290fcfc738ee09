"""The sequences kept by draft models are bounded, are found again, and change no answer."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.drafters.draft_model import DraftModel
from guided.drafters.draft_model.read_text import as_chain
from guided.model.batch import Segment, StepBatch
from guided.spec import GenerationRequest, Sampling, TokenId
from tests.engine.draft_models import checked_answers, make_draft
from tests.engine.test_draft_models import drafting
from tests.engine.test_paged_cache import CROWD, PREAMBLE, SHORT_CACHES, alone
from tests.engine.test_paged_cache import tokens as all_tokens
from tests.engine.tiny_models import make_engine, make_model


def crowd_alone(architecture: str) -> dict[str, tuple[int, ...]]:
    """The answer of each of the crowd alone."""
    return alone(architecture, CROWD)


@pytest.mark.parametrize("architecture", ["llama", "gemma3_sliding"])
def test_answers_that_give_way_and_start_over_are_drafted_on(architecture: str) -> None:
    """The target's cache is short; the draft model keeps the part of an answer that it has read."""
    model, drafter = make_model(architecture), make_draft(make_model(architecture))
    engine = drafting(
        model, drafter, cache_tokens=SHORT_CACHES[architecture], max_batch=8, step_tokens=16
    )
    found = checked_answers(engine, [drafter], CROWD)
    assert all_tokens(found) == crowd_alone(architecture)
    assert engine.stats().preempted > 0
    read = sum(len(request.prompt) for request in CROWD.values())
    said = sum(len(result.tokens) for result in found.values())
    # No prompt was read twice; drafted tokens may be, as they change while an answer waits.
    assert drafter.num_tokens <= read + 3 * said


@pytest.mark.parametrize("num_blocks", [40, 12])
def test_where_pages_are_short_the_longest_unused_give_way(num_blocks: int) -> None:
    """A sequence that has lost its pages is read again; one without room gets no drafts."""
    model, drafter = make_model(), make_draft(make_model(), num_blocks=num_blocks)
    engine = drafting(model, drafter, max_batch=8, step_tokens=32)
    found = checked_answers(engine, [drafter], CROWD)
    assert all_tokens(found) == crowd_alone("llama")
    assert sum(result.usage.accepted_tokens for result in found.values()) > 0


def test_pages_that_hold_no_sequence_draft_nothing() -> None:
    drafter = make_draft(make_model(), num_blocks=2)
    found = checked_answers(drafting(make_model(), drafter), [drafter], CROWD)
    assert all_tokens(found) == crowd_alone("llama")
    assert drafter.num_calls == 0


def asked(prompt: str, salt: str = "") -> GenerationRequest:
    return GenerationRequest(prompt=prompt, max_tokens=8, cache_salt=salt)


def test_prompts_that_begin_alike_are_read_once_in_a_salt() -> None:
    drafter = make_draft(make_model())
    engine = drafting(make_model(), drafter, max_batch=1)
    read = []
    for prompt, salt in (("abc", "a"), ("name", "a"), ("12", "b")):
        before = drafter.num_tokens
        checked_answers(engine, [drafter], {"r": asked(PREAMBLE + prompt, salt)})
        read.append(drafter.num_tokens - before)
    assert read[1] < read[0] - len(PREAMBLE) // 2
    assert read[2] > read[1] + len(PREAMBLE) // 2


def test_samples_of_one_prompt_read_it_once() -> None:
    drafter = make_draft(make_model(), widths=(1,))
    engine = drafting(make_model(), drafter, max_batch=8, step_tokens=64)
    request = GenerationRequest(
        prompt=PREAMBLE, max_tokens=6, n=4, sampling=Sampling(temperature=1.0, seed=1)
    )
    checked_answers(engine, [drafter], {"r": request})
    assert drafter.num_tokens < 2 * len(PREAMBLE)


def test_a_long_prompt_is_read_in_parts_beside_an_answer_under_way() -> None:
    model = make_model()
    requests = {
        "long": GenerationRequest(prompt=PREAMBLE * 5, max_tokens=30),
        "short": GenerationRequest(prompt="x", max_tokens=40),
    }
    plain = {
        key: tuple(result.tokens)
        for key, result in checked_answers(make_engine(model), [], requests).items()
    }
    drafter = make_draft(make_model(), step_tokens=20, widths=(1, 1))
    sizes: list[int] = []
    forward = drafter._runner.forward

    def watched(batch):  # type: ignore[no-untyped-def]
        sizes.append(len(batch.tokens))
        return forward(batch)

    drafter._runner.forward = watched  # type: ignore[method-assign]
    engine = drafting(model, drafter, step_tokens=512)
    found = checked_answers(engine, [drafter], requests)
    assert {key: result.tokens for key, result in found.items()} == plain
    assert max(sizes) <= 20
    assert found["short"].usage.model_calls <= -(-40 // 3)
    assert found["long"].usage.accepted_tokens > 0


def test_nothing_is_drafted_beyond_the_context_window() -> None:
    drafter = make_draft(make_model(), context_window=40, widths=(1, 1))
    engine = drafting(make_model(), drafter, widest_draft=8)
    request = GenerationRequest(prompt="hello name", max_tokens=60)
    usage = checked_answers(engine, [drafter], {"r": request})["r"].usage
    within = 40 - usage.prompt_tokens - 8
    assert within * 2 / 3 - 2 <= usage.accepted_tokens <= within


def test_many_requests_leave_nothing_behind() -> None:
    drafter = make_draft(make_model(), num_blocks=60)
    engine = drafting(make_model(), drafter, max_batch=8)
    for round_ in range(10):
        requests = {
            f"{round_} {number}": GenerationRequest(prompt=f"{number}", max_tokens=3)
            for number in range(20)
        }
        ended = {0: f"{round_} 0", 1: f"{round_} 3"}
        checked_answers(engine, [drafter], requests, cancelled=ended)
    assert drafter.texts.num_texts == 0


def test_a_text_that_is_not_the_one_that_was_read_is_read_anew() -> None:
    drafter = make_draft(make_model())
    texts, key = drafter.texts, object()
    first = tuple(map(TokenId, range(10, 30)))
    texts.begin_step()
    text = texts.open(key, first, "")
    assert texts.reserve(text, len(first))
    text.make_segment([(row - 1 if row else None, token) for row, token in enumerate(first)], ())
    # All but the last are committed: the logits after it are needed.
    assert len(texts.find(key, (*first, TokenId(7))) or ()) == 20
    assert texts.find(key, (*first[:5], TokenId(7), *first)) is None
    texts.check()
    assert texts.num_texts == 0


@pytest.mark.parametrize("architecture", ["llama", "gemma3_sliding"])
def test_what_is_kept_of_a_tree_is_what_the_text_has_taken(architecture: str) -> None:
    """Random trees, computed in random parts; then the next logits are those of a fresh reading."""
    draw = random.Random(5)
    drafter = make_draft(make_model(architecture), reuse_prefixes=False)
    texts, key = drafter.texts, object()
    tokens = [TokenId(draw.randrange(2, 200)) for _ in range(9)]
    texts.begin_step()
    text = texts.open(key, tokens, "")
    for _ in range(12):
        unread = tokens[len(text) :]
        nodes = as_chain(unread)
        for _ in range(draw.randrange(12)):
            # Few tokens, so that branches often begin alike.
            node = (draw.randrange(len(unread) - 1, len(nodes)), TokenId(draw.randrange(2, 6)))
            if node not in nodes:
                nodes.append(node)
        assert texts.reserve(text, len(nodes) + 3)
        cut = draw.randrange(len(unread), len(nodes) + 1)
        for part in filter(None, (nodes[:cut], nodes[cut:])):
            found = logits(drafter, text.make_segment(part, (0,)))
        # Follows the tree for a while, then leaves it.
        at, taken = len(unread) - 1, 0
        children = [row for row, (parent, _) in enumerate(nodes) if parent == at]
        while children and draw.random() < 0.8:
            at = draw.choice(children)
            tokens.append(nodes[at][1])
            taken += 1
            children = [row for row, (parent, _) in enumerate(nodes) if parent == at]
        tokens.append(TokenId(draw.randrange(200, 250)))
        before = len(text)
        texts.begin_step()
        assert texts.find(key, tokens) is text
        assert len(text) == before + len(unread) + taken
        texts.check()
    assert texts.reserve(text, 1)
    found = logits(drafter, text.make_segment(as_chain(tokens[len(text) :]), (0,)))
    fresh = texts.open(object(), tokens, "")
    assert texts.reserve(fresh, len(tokens))
    read = logits(drafter, fresh.make_segment(as_chain(tokens), (len(tokens) - 1,)))
    np.testing.assert_allclose(found, read, rtol=1e-5, atol=1e-5)


def logits(drafter: DraftModel, segment: Segment) -> NDArray[np.float32]:
    (output,) = drafter._runner.forward(StepBatch((segment,))).split([segment])
    return output.logits
