"""Answers of ``generate`` fit their constraint, however rows are chosen, doubled and moved."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessorList
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingLogitsProcessorList,
)

from guided import Forcing, GenerationRequest, JsonSchema
from guided.compiler import Compiler
from guided.constraint import ConstraintCompiler
from guided.engine import Engine
from guided.errors import LimitExceededError, RequestError, UnsupportedFeatureError
from guided.integrations.transformers import ConstrainedLogits
from guided.model.runner import ModelRunner
from guided.spec import TokenId
from tests.engine.tiny_models import answers
from tests.kit.pages import run_blocks
from tests.kit.tiny_model import save_tiny_model

_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "size": {"enum": ["small", "medium", "large"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 999},
    },
    "required": ["name", "size", "count"],
    "additionalProperties": False,
}
_OTHER = {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4}
_PROMPTS = ["a person, please", "x", "the quick brown fox jumps over the lazy dog"]


class Host(NamedTuple):
    folder: Path
    model: Any
    tokenizer: Any
    compiler: Compiler

    def asked(self, prompts: list[str]) -> dict[str, torch.Tensor]:
        """Prompts in one batch, the shorter ones padded on the left."""
        asked: dict[str, torch.Tensor] = self.tokenizer(prompts, return_tensors="pt", padding=True)
        return {name: asked[name] for name in ("input_ids", "attention_mask")}

    def generate(
        self, prompts: list[str], *schemas: dict[str, Any], close: bool = False, **options: Any
    ) -> list[list[int]]:
        """The tokens of each answer, without ends and padding."""
        asked = self.asked(prompts)
        length = asked["input_ids"].shape[1]
        options = {"max_new_tokens": 120, "do_sample": False} | options
        only = ConstrainedLogits(
            [self.compiler.compile(schema) for schema in schemas],
            prompt_length=length,
            max_new_tokens=options["max_new_tokens"] if close else None,
        )
        said = self.model.generate(**asked, logits_processor=[only], **options)
        ends = self.compiler.vocabulary.end_ids
        return [[token for token in row if token not in ends] for row in said[:, length:].tolist()]

    def fits(self, answer: list[int], schema: dict[str, Any]) -> bool:
        """Whether tokens are a whole answer, judged by a matcher independent of the masks."""
        matcher = self.compiler.compile(schema).matcher()
        return matcher.accept(answer) and matcher.is_accepting


def _loaded(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def _render(host: Host, prompt: object, shown: str | None, *_: object) -> tuple[TokenId, ...]:
    assert isinstance(prompt, str)
    return tuple(map(TokenId, host.tokenizer.encode(prompt + (shown or ""))))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    folder = save_tiny_model(tmp_path_factory.mktemp("tiny"))
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"
    model = _loaded(folder)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return Host(folder, model, tokenizer, Compiler(folder, num_logits=model.config.vocab_size))


def test_what_is_tested_would_not_come_about_by_itself(host: Host) -> None:
    asked = host.asked(_PROMPTS[:1])
    said = host.model.generate(**asked, max_new_tokens=40, do_sample=False)
    free = said[0, asked["input_ids"].shape[1] :].tolist()
    assert not host.compiler.compile(_SCHEMA).matcher().accept(free[:2])


def test_a_batch_says_what_each_prompt_is_answered_by_itself(host: Host) -> None:
    answers = host.generate(_PROMPTS, _SCHEMA)
    assert all(host.fits(answer, _SCHEMA) for answer in answers)
    assert len({*map(tuple, answers)}) == len(_PROMPTS)
    assert answers == [host.generate([prompt], _SCHEMA)[0] for prompt in _PROMPTS]


def test_each_prompt_has_its_own_constraint(host: Host) -> None:
    schemas = [_SCHEMA, _OTHER, _SCHEMA]
    answers = host.generate(_PROMPTS, *schemas)
    assert all(map(host.fits, answers, schemas))


def test_samples_of_one_prompt_fit(host: Host) -> None:
    torch.manual_seed(3)
    answers = host.generate(
        _PROMPTS, _SCHEMA, _OTHER, _SCHEMA, do_sample=True, num_return_sequences=4, top_k=0
    )
    assert all(
        map(host.fits, answers, [each for each in (_SCHEMA, _OTHER, _SCHEMA) for _ in "four"])
    )
    assert len({*map(tuple, answers[:4])}) > 1


@pytest.mark.parametrize("options", [{}, {"do_sample": True}], ids=["searched", "sampled"])
def test_beams_fit_wherever_they_are_moved(host: Host, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    schemas = [_SCHEMA, _OTHER, _SCHEMA]
    answers = host.generate(_PROMPTS, *schemas, num_beams=5, num_return_sequences=3, **options)
    assert all(map(host.fits, answers, [schema for schema in schemas for _ in range(3)]))


@pytest.mark.parametrize("drafts", ["prompt lookup", "a model"])
def test_drafts_change_no_greedy_answer(host: Host, drafts: str) -> None:
    torch.manual_seed(5)
    from_config: Any = AutoModelForCausalLM.from_config
    assistant = from_config(host.model.config)
    options = {
        "prompt lookup": {"prompt_lookup_num_tokens": 5},
        "a model": {"assistant_model": assistant},
    }[drafts]
    prompt = 'again {"name":"small medium large","size":"small","count":100} and true,false'
    for schema in (_SCHEMA, _OTHER):
        plain = host.generate([prompt], schema)
        assert host.generate([prompt], schema, **options) == plain


def test_greedy_answers_are_those_of_our_engine(host: Host) -> None:
    vocabulary = host.compiler.vocabulary
    engine = Engine(
        model_name="tiny",
        # A new one, because our attention stays in a model that an engine has run.
        runner=ModelRunner(_loaded(host.folder), vocabulary_size=len(vocabulary)),
        vocabulary=vocabulary,
        context_window=4096,
        render=partial(_render, host),
        start=ConstraintCompiler(vocabulary).start,
    )
    constraint = JsonSchema(json.dumps(_SCHEMA))
    request = partial(GenerationRequest, constraint=constraint, max_tokens=120, forcing=Forcing.OFF)
    said = answers(engine, {prompt: request(prompt) for prompt in _PROMPTS})
    expected = host.generate(_PROMPTS, _SCHEMA)
    assert [list(said[prompt].tokens) for prompt in _PROMPTS] == expected


def test_an_answer_ends_before_it_is_cut_off(host: Host) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 3}
    options: dict[str, Any] = {
        "max_new_tokens": 16,
        "do_sample": True,
        "top_k": 0,
        "num_return_sequences": 8,
    }
    torch.manual_seed(0)
    cut = host.generate(_PROMPTS[:1], schema, **options)
    assert not all(host.fits(answer, schema) for answer in cut)
    torch.manual_seed(0)
    closed = host.generate(_PROMPTS[:1], schema, close=True, **options)
    assert all(host.fits(answer, schema) for answer in closed)


def test_what_cannot_be_right_is_refused(host: Host) -> None:
    compiled = host.compiler.compile(_SCHEMA)
    only = ConstrainedLogits([compiled, compiled], prompt_length=4)
    rows: Any = torch.zeros((3, 5), dtype=torch.long)
    with pytest.raises(RequestError, match="3 rows of 5 tokens do not go with 2 constraints"):
        only(rows, torch.zeros(3, 1000))
    for length in (3, 5):
        with pytest.raises(
            RequestError, match=rf"2 rows of {length} tokens do not go .* each call of generate"
        ):
            only(rows[:2, :length], torch.zeros(2, 1000))
    with pytest.raises(RequestError, match=r"has 300 logits, .* Compiler with num_logits=300"):
        only(rows[:2, :4], torch.zeros(2, 300))
    with pytest.raises(RequestError, match="0 constraints are given"):
        ConstrainedLogits([], prompt_length=4)
    raw: Any
    for raw in (bool, Forcing, list[int], _SCHEMA, '{"type": "null"}', [compiled, bool]):
        with pytest.raises(RequestError, match=r"is not a compiled constraint; pass what Compiler"):
            ConstrainedLogits(raw, prompt_length=4)
    with pytest.raises(LimitExceededError, match="and the budget is 3"):
        ConstrainedLogits(compiled, prompt_length=4, max_new_tokens=3)
    with pytest.raises(UnsupportedFeatureError, match="continuous batching of transformers"):
        ContinuousBatchingLogitsProcessorList(LogitsProcessorList([only]))


def test_the_page_shows_code_that_runs(host: Host) -> None:
    given = {"model": host.model, "tokenizer": host.tokenizer}
    names = run_blocks("docs/hosts/transformers.md", given)
    length = names["rows"]["input_ids"].shape[1]
    said = names["said"][:, length:].tolist()
    ends = host.compiler.vocabulary.end_ids
    texts = [
        host.compiler.vocabulary.decode([token for token in answer if token not in ends])
        for answer in said
    ]
    people = [names["Person"].model_validate_json(text) for text in texts]
    assert len(people) == 2, "one of each prompt"
    assert all(len(one.name) <= 20 and 0 <= one.age <= 120 for one in people)
