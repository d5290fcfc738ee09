"""Drafts from earlier answers and from a window of guesses change no answer, and leak nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from guided.decoding import DraftBuilder, DraftContext, DraftState, VerifiedStep
from guided.drafters.lookahead import LookaheadDrafter
from guided.drafters.named import default_drafters, make_drafters
from guided.drafters.suffix import SuffixDrafter
from guided.engine.engine import Engine
from guided.engine.load import load_engine
from guided.errors import RequestError
from guided.spec import Forcing, GenerationRequest, GenerationResult, Sampling, TokenId
from tests.engine.drafters import OneByOne
from tests.engine.finite_language import make_vocabulary
from tests.engine.test_trees import calls, repeating_requests, tokens
from tests.engine.tiny_models import answers, make_engine, make_model, render, results
from tests.kit.counted import counted
from tests.kit.effort import crossed

NAMES = ("lookup", "suffix", "lookahead")
ARCHITECTURES = ("llama", "mistral_sliding", "gemma2_soft_capped", "gpt2")


def engine_with(names: Sequence[str], **options: Any) -> Engine:
    drafters = make_drafters(names, make_vocabulary())
    settings: dict[str, Any] = {"drafters": drafters, "widest_draft": 16, "max_batch": 3}
    return make_engine(**settings | options)


@pytest.mark.parametrize(
    ("architecture", "names", "temperature"),
    crossed(ARCHITECTURES, [("suffix",), ("lookahead",), NAMES[::-1]], [0.0, 1.0]),
)
def test_answers_are_the_same_with_them_and_without(
    architecture: str, names: tuple[str, ...], temperature: float
) -> None:
    """In batches, with repeated requests, and with one that is cancelled midway."""
    model = make_model(architecture)
    asked = repeating_requests(Forcing.CANONICAL, temperature)
    plain = answers(make_engine(model, max_batch=3), asked)
    engine = engine_with(names, model=model, step_tokens=32)
    cancelled = replace(asked["hello name"], prompt="zebra name", max_tokens=80)
    for _ in range(2):
        engine.submit("cancelled", cancelled)
        for key, request in asked.items():
            engine.submit(key, request)
        ended = []
        for _ in range(3):
            ended += engine.step()
            engine.check()
        engine.cancel("cancelled")
        drafted = results(engine)
        for finished in ended:
            assert isinstance(finished.outcome, GenerationResult)
            drafted[finished.request_id] = finished.outcome
        assert drafted.keys() == asked.keys()
        drafted = {key: drafted[key] for key in plain}
        assert tokens(drafted) == tokens(plain)
        # The guesses of a random model may never come true.
        if names != ("lookahead",):
            assert sum(result.usage.drafted_tokens for result in drafted.values()) > 0
        for key, result in drafted.items():
            assert result.usage.forced_tokens == plain[key].usage.forced_tokens
            assert result.finish_reason is plain[key].finish_reason


def test_what_is_asked_again_takes_few_calls() -> None:
    asked = repeating_requests(Forcing.CANONICAL, 0.0)
    engine = engine_with(("suffix",))
    first, again = answers(engine, asked), answers(engine, asked)
    assert tokens(again) == tokens(first)
    assert calls(again) < 0.4 * calls(first)


def salted(asked: dict[str, GenerationRequest], salt: str) -> dict[str, GenerationRequest]:
    return {key: replace(request, cache_salt=salt) for key, request in asked.items()}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_requests_of_another_salt_are_drafted_as_in_a_fresh_engine(temperature: float) -> None:
    """Equally many calls, drafted and accepted tokens, whatever was answered before."""
    asked = repeating_requests(Forcing.CANONICAL, temperature)
    fresh = answers(engine_with(NAMES), salted(asked, "you"))
    engine = engine_with(NAMES)
    for salt in ("me", "", "me"):
        mine = answers(engine, salted(asked, salt))
    yours = answers(engine, salted(asked, "you"))
    assert {key: counted(result.usage) for key, result in yours.items()} == {
        key: counted(result.usage) for key, result in fresh.items()
    }
    assert calls(mine) < calls(yours)


def test_a_cancelled_answer_is_remembered_as_far_as_it_came() -> None:
    request = GenerationRequest(prompt="hello name", max_tokens=30)
    whole = answers(make_engine(), {"r": request})["r"].tokens
    drafter = SuffixDrafter()
    engine = make_engine(drafters=(drafter,), widest_draft=16)
    engine.submit("r", request)
    for _ in range(8):
        engine.step()
    engine.cancel("r")
    engine.check()
    drafter.pools.check()
    again = answers(engine, {"r": request})["r"]
    assert again.tokens == whole
    # The first eight tokens come in a call or two, the others in one each.
    assert 30 - 8 <= again.usage.model_calls <= 30 - 5
    assert again.usage.accepted_tokens >= 5


class Scouting(OneByOne):
    """Drafts nothing, but sends a known text along, and records the model's choices after it."""

    name = "scouting"

    def __init__(self, known: Sequence[TokenId]) -> None:
        self.known = known
        self.heard: list[tuple[TokenId, TokenId]] = []
        """The next token of the known text, and the model's choice, for each scout."""
        self.awaited: dict[int, TokenId] = {}
        self.forgotten = 0

    def open(self, context: DraftContext) -> DraftState | None:  # noqa: ARG002 - for all
        return self

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:
        self.awaited = {}
        node = builder.root
        for place in range(len(tokens), min(len(tokens) + builder.room, len(self.known) - 1)):
            if builder.tokens_left(node) < 1:
                break
            asks = place % 2 == 0
            node = builder.add_scout(node, self.known[place], wants_logits=asks)
            if asks:
                self.awaited[node] = self.known[place + 1]

    def learn(self, verified: VerifiedStep) -> None:
        assert verified.scout_logits.keys() == self.awaited.keys()
        assert not {*verified.acceptance.path} & {*verified.tree.scouts}
        for node, expected in self.awaited.items():
            self.heard.append((expected, TokenId(int(np.argmax(verified.scout_logits[node])))))
        self.awaited = {}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_scouts_are_computed_and_never_seen(architecture: str) -> None:
    """Scouts are the model's own choices; still they are no drafts, and their rows do not stay."""
    model = make_model(architecture)
    request = GenerationRequest(prompt="hello name", max_tokens=24)
    options: dict[str, Any] = {"max_batch": 2, "step_tokens": 16, "widest_draft": 6}
    plain = make_engine(model, **options)
    alone = answers(plain, {"r": request})["r"]
    drafter = Scouting((*render(request.prompt, None), *alone.tokens))
    engine = make_engine(model, drafters=(drafter,), **options)
    result = answers(engine, {"r": request})["r"]
    assert result.tokens == alone.tokens
    assert counted(result.usage) == counted(alone.usage)
    # The model computed them at the right positions, after the right tokens.
    assert len(drafter.heard) > 20
    assert all(expected == said for expected, said in drafter.heard)
    # The part of the answer in the cache is the same, too.
    longer = replace(request, prompt="hello name and more", drafters=("none",))
    assert counted(answers(engine, {"r": longer})["r"].usage) == counted(
        answers(plain, {"r": replace(longer, drafters=())})["r"].usage
    )
    cached = [each.stats().cache.cached for each in (engine, plain)]
    assert cached[0] == cached[1]


def test_what_a_window_foresees_is_drafted() -> None:
    asked = repeating_requests(Forcing.CANONICAL, 0.0)
    drafted = answers(engine_with(("lookahead",)), asked)
    usages = [result.usage for result in drafted.values()]
    assert sum(usage.accepted_tokens for usage in usages) > 0


def test_a_window_has_no_part_in_the_drafted_tokens() -> None:
    """A window whose n-grams are never legal: nothing is drafted, and calls are as without."""
    asked = {
        key: request
        for key, request in repeating_requests(Forcing.CANONICAL, 0.0).items()
        if request.constraint is not None
    }
    plain = answers(make_engine(), asked)
    engine = make_engine(drafters=(LookaheadDrafter(3, 2),), widest_draft=3)
    for key, result in answers(engine, asked).items():
        assert result.usage.drafted_tokens == result.usage.accepted_tokens == 0
        assert result.usage.model_calls == plain[key].usage.model_calls


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (("lookup", "sufix"), "'sufix', which is none of 'lookup', 'suffix', 'lookahead'"),
        (("lookup", "lookup"), "'lookup' twice"),
    ],
)
def test_names_of_no_drafter_are_refused(names: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        make_drafters(names, make_vocabulary())
    # Before anything is fetched.
    with pytest.raises(RequestError, match=complaint):
        load_engine("no/model", drafters=names)


def test_where_no_prefix_is_kept_no_answer_is() -> None:
    assert "suffix" in default_drafters(reuse_prefixes=True)
    assert "suffix" not in default_drafters(reuse_prefixes=False)


def test_sampled_answers_of_one_request_are_shared_with_the_next() -> None:
    request = GenerationRequest(
        prompt="hello name", max_tokens=20, n=3, sampling=Sampling(temperature=1.0, seed=3)
    )
    engine = engine_with(("suffix",))
    first = answers(engine, {"r": request})["r"]
    again = answers(engine, {"r": request})["r"]
    assert [each.tokens for each in again.candidates] == [each.tokens for each in first.candidates]
    assert again.usage.model_calls < first.usage.model_calls
