"""Draft models change how many calls of the target an answer takes, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from guided.decoding import CostCurve, DraftBuilder, Drafter
from guided.drafters import LookupDrafter
from guided.drafters.draft_model import Respelling
from guided.errors import ModelError
from guided.masks.vocabulary import Vocabulary
from guided.model.cpu import WeightFormat
from guided.spec import FinishReason, Forcing, GenerationRequest, Sampling, TokenId
from tests.engine.architectures import CONFIGS, LOGITS_WIDTH
from tests.engine.draft_models import checked_answers, make_draft
from tests.engine.drafters import OneByOne
from tests.engine.finite_language import TOKEN_BYTES, make_vocabulary, spell_bytes
from tests.engine.test_trees import calls, repeating_requests, tokens
from tests.engine.tiny_models import answers, make_engine, make_model, render
from tests.kit.effort import crossed

TREE = (3, 2, 1, 1)
NARROW: dict[str, Any] = {"step_tokens": 16, "max_batch": 4}


def drafting(model: Any, *drafts: Drafter, staged: bool = False, **options: Any) -> Any:
    """An engine that drafts with these, and with look-ups before them where it is staged."""
    lookup = (LookupDrafter(make_vocabulary()),) if staged else ()
    settings = {"widest_draft": 16} | NARROW | options
    return make_engine(model, drafters=(*lookup, *drafts), **settings)


PAIRS: Sequence[tuple[str, str, Sequence[int]]] = (
    ("llama", "llama", TREE),
    ("llama", "mistral_sliding", TREE),
    ("mistral_sliding", "llama", (1, 1, 1)),
    ("gemma3_sliding", "gemma2_soft_capped", (2, 2)),
    ("qwen3", "gpt2", TREE),
    ("gpt2", "gemma3_sliding", (1, 1, 1, 1)),
)


@pytest.mark.parametrize(("pair", "temperature"), crossed(PAIRS, [0.0, 1.0]))
def test_answers_with_a_draft_model_are_those_without(
    pair: tuple[str, str, Sequence[int]], temperature: float
) -> None:
    """A mixed batch over windows shorter than the texts; two requests are cancelled on the way."""
    target, draft, widths = pair
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


@pytest.mark.parametrize("forcing", [Forcing.STRICT, Forcing.OFF])
def test_so_are_they_with_other_forcing(forcing: Forcing) -> None:
    model = make_model()
    asked = repeating_requests(forcing, 0.0)
    plain = answers(make_engine(model, **NARROW), asked)
    drafter = make_draft(make_model(), widths=TREE)
    # Without forcing only the drafters that the request names draft.
    naming = {key: replace(request, drafters=("draft",)) for key, request in asked.items()}
    found = checked_answers(drafting(model, drafter), [drafter], naming)
    assert tokens(found) == tokens(plain)
    assert calls(found) < calls(plain) / 2


@pytest.mark.parametrize("architecture", CONFIGS)
def test_a_draft_model_that_is_the_target_is_always_right(architecture: str) -> None:
    """In a chain each call of the target gives four drafted tokens and one of its own."""
    model = make_model(architecture)
    request = GenerationRequest(prompt="hello name", max_tokens=60)
    plain = answers(make_engine(model), {"r": request})["r"]
    drafter = make_draft(make_model(architecture), widths=(1, 1, 1, 1))
    found = checked_answers(drafting(model, drafter), [drafter], {"r": request})["r"]
    usage = found.usage
    assert found.tokens == plain.tokens
    chosen = len(found.tokens) + (found.finish_reason is not FinishReason.LENGTH)
    assert usage.model_calls == -(-chosen // 5)
    assert usage.accepted_tokens == usage.drafted_tokens
    # Only the first call of a step reads; what was accepted is not read again.
    assert drafter.num_calls <= 4 * usage.model_calls
    assert drafter.num_tokens <= len(request.prompt) + len(found.tokens)


@pytest.mark.parametrize("architecture", ["llama", "gemma3_sliding", "mistral_sliding"])
def test_every_level_of_a_tree_reads_what_the_levels_before_have_computed(
    architecture: str,
) -> None:
    """The likeliest path of a tree is the chain, whatever is computed beside it."""
    model = make_model(architecture)
    request = GenerationRequest(prompt="hello name", max_tokens=45)
    drafter = make_draft(make_model(architecture), widths=TREE)
    engine = drafting(model, drafter, widest_draft=40)
    usage = checked_answers(engine, [drafter], {"r": request})["r"].usage
    # 3 + 6 + 6 + 6 drafted tokens, of which a path of four is right.
    assert usage.model_calls == 9
    assert usage.accepted_tokens == 4 * 9
    assert usage.drafted_tokens == 21 * 9


def test_our_own_forward_pass_reads_trees_level_by_level() -> None:
    model = make_model("llama", dtype=torch.float32)
    request = GenerationRequest(prompt="hello name", max_tokens=45)
    drafter = make_draft(
        make_model("llama", dtype=torch.float32),
        widths=TREE,
        weights=WeightFormat.FP32,
    )
    engine = drafting(model, drafter, widest_draft=40, weights=WeightFormat.FP32)
    usage = checked_answers(engine, [drafter], {"r": request})["r"].usage
    assert usage.model_calls == 9


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_it_draws_with_the_noise_of_the_target(temperature: float) -> None:
    model = make_model()
    sampling = Sampling(temperature=temperature, top_p=0.9, seed=3)
    request = GenerationRequest(prompt="hello name", max_tokens=40, sampling=sampling)
    drafter = make_draft(make_model())
    found = checked_answers(drafting(model, drafter), [drafter], {"r": request})["r"]
    assert found.usage.accepted_tokens == found.usage.drafted_tokens > 0


def test_one_call_a_level_serves_all_sequences() -> None:
    model = make_model()
    requests = {
        prompt: GenerationRequest(prompt=prompt, max_tokens=20)
        for prompt in ("abc", "na", "12", "x")
    }
    drafter = make_draft(make_model(), widths=(1, 1, 1))
    found = checked_answers(drafting(model, drafter), [drafter], requests)
    assert {result.usage.model_calls for result in found.values()} == {5}
    assert drafter.num_calls == 3 * 5


class KnowsFive(OneByOne):
    """Drafts the next five tokens of a known text."""

    def __init__(self, known: tuple[TokenId, ...]) -> None:
        self.known = known

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:
        node: int | None = builder.last_node
        for token in self.known[len(tokens) :][:5]:
            assert node is not None
            node = builder.add(node, token)


def test_what_cheaper_drafters_drafted_is_read_in_the_first_call() -> None:
    """So they draft for the draft model, which continues after the tokens that it agrees with."""
    model = make_model()
    request = GenerationRequest(prompt="hello name", max_tokens=40)
    plain = answers(make_engine(model), {"r": request})["r"]
    known = KnowsFive((*render(request.prompt, None), *plain.tokens))
    drafter = make_draft(make_model(), widths=(1, 1))
    engine = drafting(model, known, drafter)
    found = checked_answers(engine, [drafter], {"r": request})["r"]
    assert found.tokens == plain.tokens
    # Five known ones, two by two calls of the draft model, and one of the target's own.
    assert found.usage.model_calls == 40 / (5 + 2 + 1)
    assert drafter.num_calls == 2 * found.usage.model_calls


def test_it_does_not_go_on_from_what_it_would_not_have_said() -> None:
    model = make_model()
    request = GenerationRequest(prompt="hello name", max_tokens=40)
    plain = answers(make_engine(model), {"r": request})["r"]
    known = KnowsFive(tuple(spell_bytes(b"hello name" + b"?" * 40)))
    drafter = make_draft(make_model(), widths=(1, 1))
    engine = drafting(model, known, drafter)
    found = checked_answers(engine, [drafter], {"r": request})["r"]
    assert found.tokens == plain.tokens
    assert found.usage.model_calls == -(-40 // 3)
    assert found.usage.accepted_tokens <= 2 * found.usage.model_calls


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_two_draft_models_draft_into_one_tree(temperature: float) -> None:
    model = make_model()
    asked = repeating_requests(Forcing.CANONICAL, temperature)
    plain = answers(make_engine(model, **NARROW), asked)
    other, same = make_draft(make_model(seed=1)), make_draft(make_model(), name="draft-2")
    found = checked_answers(drafting(model, other, same, widest_draft=32), [other, same], asked)
    assert tokens(found) == tokens(plain)
    alone = make_draft(make_model())
    by_one = checked_answers(drafting(model, alone, widest_draft=32), [alone], asked)
    # The drafter that knows nothing costs the right one no call.
    assert calls(found) <= calls(by_one)


def test_a_request_names_the_draft_models_it_wants() -> None:
    model = make_model()
    drafts = [make_draft(make_model()), make_draft(make_model(), name="draft-2")]
    request = GenerationRequest(prompt="hello", max_tokens=12, drafters=("draft-2",))
    checked_answers(drafting(model, *drafts), drafts, {"r": request})
    assert drafts[0].num_calls == 0 < drafts[1].num_calls


def test_no_level_is_computed_that_does_not_pay() -> None:
    steep = CostCurve(((1, 0.010), (2, 0.020)))
    request = GenerationRequest(prompt="hello", max_tokens=12)
    drafter = make_draft(make_model())
    checked_answers(drafting(make_model(), drafter, costs=steep), [drafter], {"r": request})
    assert drafter.num_calls == 0
    # The chains of a draft model that is always wrong become shorter.
    some = CostCurve(((1, 0.010), (8, 0.014), (64, 0.100)))
    wrong = make_draft(make_model(seed=1), widths=(1,) * 8)
    engine, calls_made = drafting(make_model(), wrong, costs=some), []
    for prompt in ("hello", "name"):
        request = GenerationRequest(prompt=prompt, max_tokens=60, drafters=("draft",))
        checked_answers(engine, [wrong], {"r": request})
        calls_made.append(wrong.num_calls)
    assert calls_made[1] - calls_made[0] < calls_made[0] < 8 * 60 / 2


def test_a_text_of_which_logits_are_no_numbers_goes_on_without_drafts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The draft model is asked for both sequences, and fails for texts that begin with an x."""
    model, drafter = make_model(), make_draft(make_model())
    asked = {
        "bad": GenerationRequest(prompt="xy", max_tokens=9),
        "good": GenerationRequest(prompt="hello name", max_tokens=12),
    }
    plain = answers(make_engine(model), asked)
    forward = drafter._runner.forward

    def faulty(batch: Any) -> Any:
        output = forward(batch)
        if any(segment.tokens[0] == spell_bytes(b"x")[0] for segment in batch.segments):
            raise ModelError("no numbers")
        return output

    monkeypatch.setattr(drafter._runner, "forward", faulty)
    found = answers(drafting(model, drafter), asked)
    assert found["bad"].usage.drafted_tokens == 0
    assert found["good"].usage.drafted_tokens > 0
    for name in asked:
        assert found[name].tokens == plain[name].tokens
    drafter.texts.check()
    assert drafter.texts.num_blocks_held == 0


def backwards(model: Any) -> Any:
    """The same model over a vocabulary whose tokens of text stand in the opposite order."""
    size = len(TOKEN_BYTES)
    order = torch.tensor([0, 1, *range(size - 1, 1, -1), *range(size, LOGITS_WIDTH)])
    for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
        layer.weight.data = layer.weight.data[order].contiguous()
    return model


def other_tokens(token_bytes: Sequence[bytes | None]) -> Respelling:
    own = make_vocabulary()
    draft = Vocabulary(tuple(token_bytes), own.end_ids, spell_nothing)
    return Respelling(own, draft, special={}, known_special={})


def spell_nothing(text: str) -> list[int]:
    raise ModelError(f"{text!r} is not spelled")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_of_other_tokens_drafts_those_that_both_have(temperature: float) -> None:
    """With the weights of the target, under other ids, it is as right as the target itself."""
    model = make_model()
    respelling = other_tokens([None, None, *TOKEN_BYTES[:1:-1]])
    asked = repeating_requests(Forcing.CANONICAL, temperature)
    plain = answers(make_engine(model, **NARROW), asked)
    same = make_draft(make_model())
    expected = checked_answers(drafting(model, same), [same], asked)
    other = make_draft(backwards(make_model()), respelling=respelling)
    found = checked_answers(drafting(model, other), [other], asked)
    assert tokens(found) == tokens(plain)
    assert calls(found) == calls(expected) < calls(plain)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_tokens_that_it_does_not_have_are_read_spelled_anew(temperature: float) -> None:
    """It knows only bytes, so a token of the target, and a forced run, takes several tokens."""
    model = make_model()
    asked = repeating_requests(Forcing.CANONICAL, temperature)
    plain = answers(make_engine(model, **NARROW), asked)
    drafter = make_draft(
        make_model("gemma3_sliding", seed=1),
        widths=TREE,
        respelling=other_tokens([None, None, *[bytes([byte]) for byte in range(256)]]),
    )
    found = checked_answers(drafting(model, drafter, staged=True), [drafter], asked)
    assert tokens(found) == tokens(plain)
    assert drafter.num_calls > 0


def test_a_request_says_how_widely_it_is_drafted_for() -> None:
    """In one batch: a chain, a narrow tree, none, at most three, and more than possible."""
    model, drafter = make_model(), make_draft(make_model(), widths=(2, 1, 1, 1))
    engine = drafting(model, drafter)
    asked: dict[str, Any] = {
        "own": {},
        "two": {"draft_widths": (1, 1)},
        "tree": {"draft_widths": (2, 1)},
        "more": {"draft_widths": (8,) * 16},
        "none": {"max_drafted": 0},
        "three": {"max_drafted": 3},
    }
    requests = {
        name: GenerationRequest(prompt="hello name", max_tokens=60, cache_salt=name, **options)
        for name, options in asked.items()
    }
    found = checked_answers(engine, [drafter], requests)
    assert len({answer.tokens for answer in found.values()}) == 1
    usages = {name: answer.usage for name, answer in found.items()}
    # At the end of the budget less is drafted, and only side branches are wrong.
    most = {
        name: -(-each.drafted_tokens // max(1, each.drafted_calls)) for name, each in usages.items()
    }
    assert most == {"own": 8, "two": 2, "tree": 4, "more": 8, "none": 0, "three": 3}
    taken = {name: round(each.mean_accepted_length) for name, each in usages.items()}
    assert taken == {"own": 4, "two": 2, "tree": 2, "more": 4, "none": 0, "three": 2}
    assert found["none"].usage.model_calls >= 60


@pytest.mark.parametrize("others", [{"max_drafted": 0}, {"drafters": ("none",)}])
def test_who_drafts_nothing_takes_no_room_from_others(others: dict[str, Any]) -> None:
    """Four extra tokens cost nothing, and one of four sequences gets them all."""
    model, drafter = make_model(), make_draft(make_model())
    engine = drafting(model, drafter, costs=CostCurve(((1, 1.0), (8, 1.0), (9, 9.0))))
    options = {"drafts": {"drafters": ("draft",)}} | {f"other {n}": others for n in range(3)}
    requests = {
        name: GenerationRequest(prompt="hello name", max_tokens=40, cache_salt=name, **each)
        for name, each in options.items()
    }
    usage = checked_answers(engine, [drafter], requests)["drafts"].usage
    assert usage.drafted_tokens / usage.drafted_calls > 3
