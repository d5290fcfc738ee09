"""Traces show the origins of an answer's tokens, and change nothing about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from guided.decoding import DraftBuilder
from guided.decoding.trace import Outcome, Trace, TracedBuilder
from guided.drafters import LookupDrafter
from guided.engine.engine import Engine
from guided.errors import RequestError
from guided.inspection import Origin, TracedToken, Update, Watcher, branch_tree, origins
from guided.inspection.texts import escape_controls
from guided.spec import (
    Beams,
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    Sampling,
    TokenId,
)
from tests.engine.drafters import OneByOne, Prophet
from tests.engine.finite_language import TOKEN_BYTES, make_vocabulary
from tests.engine.tiny_models import answers, make_engine, make_model, render, results, words
from tests.kit.counted import counted

_NAMES = ("abcd", "cdna", "abna", "é", "12")
_WORDS = words(*(f'{{"name":"{a}","me":"{b}{a}"}}' for a in _NAMES for b in _NAMES))
_PROMPTS = ('name:"cdna" ', 'abna, "me":"12', "éé")


def requests(forcing: Forcing, temperature: float) -> dict[str, GenerationRequest]:
    """Constrained, free and stopped answers, which name all drafters so that forcing may be off."""
    asked = {}
    for number, prompt in enumerate(_PROMPTS):
        request = GenerationRequest(
            prompt=prompt,
            constraint=_WORDS,
            max_tokens=40,
            forcing=forcing,
            sampling=Sampling(temperature=temperature, seed=number),
            top_logprobs=0,
            drafters=("lookup", "one by one"),
        )
        asked[f"words {number}"] = request
        asked[f"free {number}"] = replace(request, constraint=None, max_tokens=16)
        asked[f"stopped {number}"] = replace(request, stop=("na", "d"), include_stop=True)
        asked[f"short {number}"] = replace(request, max_tokens=14 + 2 * number)
    return asked


def traced(
    engine: Engine, asked: dict[str, GenerationRequest]
) -> tuple[dict[str, GenerationResult], dict[str, Trace]]:
    traces = {name: Trace() for name in asked}
    for name, request in asked.items():
        engine.submit(name, request, trace=traces[name])
    return results(engine), traces


def tokens_of(result: GenerationResult, trace: Trace) -> tuple[TracedToken, ...]:
    return origins(result, trace, TOKEN_BYTES)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("forcing", Forcing)
def test_tokens_are_the_answer_and_their_counts_are_its_usage(
    forcing: Forcing, temperature: float
) -> None:
    model, asked = make_model(), requests(forcing, temperature)
    plain = answers(make_engine(model), {n: replace(r, drafters=()) for n, r in asked.items()})
    known = [(*render(asked[name].prompt, None), *plain[name].tokens) for name in asked]
    options: dict[str, Any] = {
        "drafters": (LookupDrafter(make_vocabulary()), Prophet(known, errors=0.5)),
        "widest_draft": 16,
        "max_batch": 4,
        "step_tokens": 24,
        "cache_tokens": 256,
    }
    found, traces = traced(make_engine(model, **options), asked)
    seen: Counter[Origin] = Counter()
    for name, result in found.items():
        tokens, usage = tokens_of(result, traces[name]), result.usage
        counts = Counter(token.origin for token in tokens)
        seen += counts
        assert result.tokens == plain[name].tokens
        assert tuple(token.token for token in tokens) == result.tokens
        text = b"".join(token.text for token in tokens).decode("utf-8", "replace")
        # A stop string may end inside a token, which is an origin as a whole.
        is_stopped = result.finish_reason is FinishReason.STOP_SEQUENCE
        assert text.startswith(result.text) if is_stopped else text == result.text
        assert len(traces[name].steps) == usage.model_calls
        assert counts[Origin.FORCED] == usage.forced_tokens
        assert counts[Origin.COPIED] + counts[Origin.DRAFTED] == usage.accepted_tokens
        assert len(tokens) - counts[Origin.FORCED] == usage.sampled_tokens
        assert counts[Origin.CORRECTED] <= usage.corrected_calls
        steps = [token.step for token in tokens]
        assert steps == sorted(steps)
        assert not steps or 0 <= steps[0] <= steps[-1] <= usage.model_calls
        for token in tokens:
            assert (token.probability is None) == (token.origin is Origin.FORCED)
            assert bool(token.drafter) == (token.origin in (Origin.COPIED, Origin.DRAFTED))
    wanted = {*Origin} - ({Origin.FORCED} if forcing is Forcing.OFF else set())
    assert wanted <= seen.keys()


def test_an_answer_that_is_watched_is_told_step_by_step_and_nothing_twice() -> None:
    asked = {n: replace(r, drafters=()) for n, r in requests(Forcing.CANONICAL, 1.0).items()}
    engine = make_engine(drafters=(LookupDrafter(make_vocabulary()),), widest_draft=16)
    traces = {name: Trace() for name in asked}
    watchers = {name: Watcher(trace, engine.vocabulary) for name, trace in traces.items()}
    for name, request in asked.items():
        engine.submit(name, request, trace=traces[name])
    found, told = dict[str, GenerationResult](), {name: list[Update]() for name in asked}
    while engine.has_work:
        for finished in engine.step():
            assert isinstance(finished.outcome, GenerationResult)
            found[finished.request_id] = finished.outcome
        for name, watcher in watchers.items():
            if (news := watcher.read_update(is_ended=name in found)) is not None:
                told[name].append(news)
    for name, result in found.items():
        tokens = tokens_of(result, traces[name])
        assert tuple(token for news in told[name] for token, _ in news.tokens) == tokens
        assert "".join(text for news in told[name] for _, text in news.tokens) == escape_controls(
            b"".join(token.text for token in tokens).decode("utf-8", "replace")
        )
        steps = [step for news in told[name] for step in news.steps]
        assert [step.number for step in steps] == [*range(1, result.usage.model_calls + 1)]
        # The trace of a step has all its tokens.
        assert all(news.tokens for news in told[name][1:] if news.steps)
        assert len(told[name]) > 1 or len(steps) < 2
        for step, traced_step in zip(steps, traces[name].steps, strict=True):
            assert step.tree == branch_tree(traced_step, engine.vocabulary, tokens)


def test_a_trace_changes_neither_answers_nor_what_they_cost() -> None:
    model, asked = make_model(), requests(Forcing.CANONICAL, 1.0)
    asked = {name: replace(request, drafters=()) for name, request in asked.items()}
    options: dict[str, Any] = {"drafters": (LookupDrafter(make_vocabulary()),), "widest_draft": 16}
    expected = answers(make_engine(model, **options), asked)
    found, _ = traced(make_engine(model, **options), asked)
    for name, result in found.items():
        assert result.tokens == expected[name].tokens
        assert counted(result.usage) == counted(expected[name].usage)


def test_proposals_are_what_became_of_them() -> None:
    _, traces = traced(
        make_engine(drafters=(LookupDrafter(make_vocabulary()), _Anything()), widest_draft=12),
        {n: replace(r, drafters=()) for n, r in requests(Forcing.CANONICAL, 0.0).items()},
    )
    outcomes: Counter[Outcome] = Counter()
    for step in (step for trace in traces.values() for step in trace.steps):
        tree = step.tree
        drafted = {
            (parent, token): source
            for parent, token, is_certain, source in zip(
                tree.parents, tree.tokens, tree.certain, tree.sources, strict=True
            )
            if not is_certain
        }
        added = [one for one in step.proposals if one.outcome is Outcome.ADDED]
        assert {(one.node, one.token): one.drafter for one in added} == drafted
        assert len(added) == len(drafted)
        outcomes.update(one.outcome for one in step.proposals)
        for one in step.proposals:
            matcher = tree.matchers[one.node]
            assert matcher is not None
            assert bool(one.kind) == (one.drafter == "lookup")
            if one.outcome is Outcome.ENDING:
                assert one.token in make_vocabulary().end_ids
            else:
                assert matcher.allows(one.token) == (one.outcome is not Outcome.REFUSED)
    assert outcomes.keys() == {*Outcome}


class _Anything(OneByOne):
    """Proposes tokens of all sorts, allowed or not."""

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:  # noqa: ARG002
        for token in range(0, len(TOKEN_BYTES), 3):
            builder.add(builder.root, TokenId(token), 0.01)


def test_only_what_is_traced_is_noted() -> None:
    kinds: list[type[DraftBuilder]] = []

    class Looks(OneByOne):
        def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:  # noqa: ARG002
            kinds.append(type(builder))

    engine = make_engine(drafters=(Looks(),), widest_draft=4)
    request = replace(requests(Forcing.CANONICAL, 0.0)["words 0"], drafters=())
    answers(engine, {"plain": request})
    assert {*kinds} == {DraftBuilder}
    kinds.clear()
    traced(engine, {"traced": request})
    assert {*kinds} == {TracedBuilder}


@pytest.mark.parametrize(
    "changed",
    [
        {"n": 2, "sampling": Sampling(1.0)},
        {"best_of": 2, "sampling": Sampling(1.0)},
        {"beams": Beams(2)},
        {"sampling": Sampling(penalty_alpha=0.6, top_k=3)},
    ],
    ids=["n", "best_of", "beams", "contrastive"],
)
def test_several_answers_at_once_have_no_trace(changed: dict[str, Any]) -> None:
    engine = make_engine()
    request = GenerationRequest("go", max_tokens=4, **changed)
    with pytest.raises(RequestError, match="only one answer, drawn token by token"):
        engine.submit("r", request, trace=Trace())
    assert not engine.has_work
