"""Models whose layers keep a state from token to token answer as their own plain calls do."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from transformers import NemotronHConfig, PreTrainedModel

from guided.engine.cache_size import CacheRequest, StepLimits
from guided.engine.call_costs import measure_costs
from guided.engine.load_drafters import plan_drafters
from guided.engine.memory_plan import plan_model
from guided.errors import ModelError, RequestError
from guided.kv import BlockCache, LayerGroup
from guided.model.batch import Segment, StepBatch
from guided.model.device import CPU
from guided.model.model_files import find_model
from guided.model.progress import SilentProgress
from guided.model.recurrent import RecurrentState, plan_states
from guided.model.runner import ModelRunner
from guided.spec import Beams, Forcing, GenerationRequest, Sampling, TokenId
from tests.engine.drafters import Prophet
from tests.engine.finite_language import END_IDS, TOKEN_BYTES
from tests.engine.tiny_models import answers, from_config, make_engine, render, words
from tests.kit.causal_types import tiny_config
from tests.kit.effort import crossed

TYPES = ("falcon_h1", "jamba", "lfm2", "mamba2", "minimax", "qwen3_next", "rwkv", "zaya")
"""State beside attention, Mamba, convolutions, Mamba 2 alone, a cache of its own, delta rule, a
list of states, convolutions before attention. Jamba's mixers read one token at a time after
others."""
PROMPT = "the quick brown fox jumps over the lazy dog, abc"
LENGTH = 12

REQUESTS = {
    "greedy": GenerationRequest(PROMPT, max_tokens=LENGTH),
    "short": GenerationRequest("x", max_tokens=LENGTH),
    "sampled": GenerationRequest(
        PROMPT[:20], max_tokens=LENGTH, sampling=Sampling(temperature=1.5, seed=4)
    ),
    "constrained": GenerationRequest(
        PROMPT[:9],
        constraint=words("name", "nananana", "abcabc", "12ab"),
        max_tokens=LENGTH,
        sampling=Sampling(temperature=2.0, seed=3),
        forcing=Forcing.STRICT,
    ),
}
"""Prompts of several lengths, greedy and sampled, free and constrained."""

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers warns of missing kernels


@cache
def model_of(model_type: str) -> PreTrainedModel:
    torch.manual_seed(3)
    config = tiny_config(model_type)
    # Torch's kernel for many experts at once does not compute in fp64.
    config._experts_implementation = "eager"
    model = from_config(config)
    torch.nn.Module.to(model, dtype=torch.float64)
    return model


@cache
def likeliest(model_type: str, text: tuple[TokenId, ...]) -> tuple[TokenId, ...]:
    """The likeliest token after each token of a text, by a plain call of the model."""
    model: Any = model_of(model_type)
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([text]), use_cache=False).logits[0]
    best: list[int] = logits[:, : len(TOKEN_BYTES)].argmax(-1).tolist()
    return tuple(map(TokenId, best))


def assert_plain(
    model_type: str, prompt: str, answer: tuple[TokenId, ...], length: int = LENGTH
) -> None:
    """Each token of an answer is the likeliest after the earlier ones, and an end follows."""
    before = render(prompt, None)
    expected = likeliest(model_type, (*before, *answer))[len(before) - 1 :]
    assert answer == expected[: len(answer)]
    assert len(answer) == length or expected[len(answer)] in END_IDS


def engine_of(model_type: str, **options: Any) -> Any:
    return make_engine(model_of(model_type), **({"step_tokens": 64} | options))


def tokens_of(results: dict[str, Any]) -> dict[str, tuple[TokenId, ...]]:
    return {name: result.tokens for name, result in results.items()}


@cache
def alone(model_type: str) -> dict[str, tuple[TokenId, ...]]:
    """The answers to single requests, each prompt in one call."""
    engine = engine_of(model_type, reuse_prefixes=False)
    return {
        name: answers(engine, {name: request})[name].tokens for name, request in REQUESTS.items()
    }


@pytest.mark.parametrize("model_type", TYPES)
def test_greedy_answers_are_those_of_plain_calls(model_type: str) -> None:
    found = alone(model_type)
    assert_plain(model_type, PROMPT, found["greedy"])
    assert_plain(model_type, "x", found["short"])


@pytest.mark.parametrize("errors", [0.5])
@pytest.mark.parametrize("model_type", TYPES)
def test_right_and_wrong_guesses_change_no_answer(model_type: str, errors: float) -> None:
    known = [
        (*render(request.prompt, None), *alone(model_type)[name])
        for name, request in REQUESTS.items()
        if isinstance(request.prompt, str)
    ]
    drafter = Prophet(known, errors)
    engine = engine_of(model_type, drafters=(drafter,), widest_draft=12)
    assert tokens_of(answers(engine, REQUESTS)) == alone(model_type)
    usage = engine.stats().usage
    assert 0 < usage.accepted_tokens < usage.drafted_tokens


@pytest.mark.parametrize(
    ("model_type", "options"),
    crossed(TYPES, [{"step_tokens": 5, "max_batch": 3}, {"block_size": 16}]),
)
def test_what_else_is_in_a_call_never_shows(model_type: str, options: dict[str, int]) -> None:
    engine = engine_of(model_type, **options)
    assert tokens_of(answers(engine, REQUESTS)) == alone(model_type)


@pytest.mark.parametrize("model_type", TYPES)
def test_a_beginning_is_reused_where_its_state_is_remembered(model_type: str) -> None:
    engine = engine_of(model_type)
    again = REQUESTS["greedy"]
    longer = replace(again, prompt=PROMPT + "abc 12")
    first = answers(engine, {"first": again})["first"]
    second = answers(engine, {"second": again, "longer": longer})
    assert first.usage.reused_tokens == 0
    # All full blocks of the prompt, as long as a token is left to compute.
    whole = (len(render(PROMPT, None)) - 1) // 4 * 4
    for result in second.values():
        assert result.usage.reused_tokens == whole
    assert second["second"].tokens == first.tokens
    assert_plain(model_type, PROMPT, first.tokens)
    assert_plain(model_type, PROMPT + "abc 12", second["longer"].tokens)


@pytest.mark.parametrize("model_type", TYPES)
def test_who_gives_way_starts_over(model_type: str) -> None:
    crowd = {prompt: GenerationRequest(prompt, max_tokens=20) for prompt in ("x", "zed", "na")}
    engine = engine_of(model_type, cache_tokens=32, block_size=2, reuse_prefixes=False)
    found = tokens_of(answers(engine, crowd))
    assert engine.stats().preempted > 0
    for prompt, answer in found.items():
        assert_plain(model_type, prompt, answer, 20)


SEARCHES = {
    "beams": GenerationRequest(PROMPT, max_tokens=8, n=2, beams=Beams(3)),
    "siblings": GenerationRequest(
        PROMPT, max_tokens=8, n=3, sampling=Sampling(temperature=1.5, seed=1)
    ),
    "contrastive": GenerationRequest(
        PROMPT, max_tokens=8, sampling=Sampling(penalty_alpha=0.6, top_k=4)
    ),
}


@pytest.mark.parametrize(("model_type", "name"), crossed(TYPES, SEARCHES))
def test_searches_do_not_depend_on_how_texts_are_cut(model_type: str, name: str) -> None:
    def found(**options: Any) -> list[tuple[TokenId, ...]]:
        result = answers(engine_of(model_type, **options), {name: SEARCHES[name]})[name]
        return [one.tokens for one in result.candidates or [result]]

    plain = found(reuse_prefixes=False)
    assert len(set(plain)) == SEARCHES[name].n
    assert found(step_tokens=6, max_batch=6, block_size=2) == plain


@pytest.mark.parametrize("model_type", TYPES)
def test_states_take_the_memory_that_is_planned(model_type: str, tmp_path: Any) -> None:
    model = model_of(model_type)
    runner = ModelRunner(model, vocabulary_size=len(TOKEN_BYTES))
    cache = BlockCache([LayerGroup(4, window) for window in runner.windows], 4, num_states=1)
    runner.open_storages([pool.num_slots for pool in cache.pools])
    sequence = cache.open()
    runner.forward(
        StepBatch(
            (
                Segment(
                    reservations=sequence.reserve(3),
                    num_committed=0,
                    tokens=(TokenId(5),) * 3,
                    depths=(0, 1, 2),
                    ancestors=None,
                    nodes_needing_logits=(2,),
                    recurrence=sequence.recurrence,
                    trunk_length=3,
                ),
            )
        )
    )
    sequence.commit(range(3), [TokenId(5)] * 3)
    state = sequence.recurrence.state
    assert isinstance(state, RecurrentState)
    planned = plan_states(model.config, tmp_path, torch.float64)
    assert planned.of_text == state.nbytes
    assert planned.of_drafted == sum(mixer.size for mixer in runner.shape.mixers) * 8


def test_calls_are_timed_behind_a_state() -> None:
    runner = ModelRunner(model_of("lfm2"), vocabulary_size=len(TOKEN_BYTES))
    assert measure_costs(runner, 64).seconds(1) > 0


def test_a_model_with_two_states_for_one_text_is_refused() -> None:
    """Transformers bounds this model's time steps only when it reads several tokens at once."""
    config = tiny_config("nemotron_h")
    with pytest.raises(ModelError, match="NemotronHMamba2Mixer of NemotronHForCausalLM computes"):
        ModelRunner(from_config(config), vocabulary_size=len(TOKEN_BYTES))
    assert isinstance(config, NemotronHConfig)
    config.time_step_min = 1e-9
    model = from_config(config)
    request = GenerationRequest("abc", max_tokens=6)
    engine = make_engine(model)
    assert len(answers(engine, {"a": request})["a"].tokens) <= 6


def test_the_plan_of_memory_has_a_line_for_states(tmp_path: Any) -> None:
    model = from_config(tiny_config("lfm2"))
    model.save_pretrained(tmp_path)
    asked = CacheRequest(limits=StepLimits(max_batch=4, widest_draft=8))
    plan = plan_model(find_model(str(tmp_path)), "float32", asked, CPU)
    # Two convolutions of 32 channels and 3 tokens; 4 texts for each of 4 answers, and logs.
    assert plan.footprint.states == 4 * 4 * (2 * 32 * 3 * 4) + 4 * 8 * (2 * 32 * 4)
    assert "states" in [name for name, *_ in plan.lines()]


def test_a_recurrent_draft_model_is_refused(tmp_path: Any) -> None:
    from_config(tiny_config("lfm2")).save_pretrained(tmp_path)
    with pytest.raises(RequestError, match="has layers that keep a state from token to token"):
        plan_drafters([str(tmp_path)], "float32", CacheRequest(), CPU, SilentProgress())
