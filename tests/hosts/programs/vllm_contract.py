"""guided in vLLM's own manager of structured outputs, without a model: run by test_vllm.py.

    python vllm_contract.py TOKENIZER_FOLDER

The manager is the published one of the imported vllm; its configuration has just the fields that it
reads. Ends with status 0 if all assertions hold.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import torch
import vllm
from transformers import AutoTokenizer
from vllm.config import StructuredOutputsConfig
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
)
from vllm.v1.structured_output.request import StructuredOutputRequest

from guided.integrations.vllm import register
from guided.integrations.vllm.backend import GuidedBackend, GuidedGrammar
from guided.integrations.vllm.forced_runs import ForcedRuns

SCHEMA = {
    "type": "object",
    "properties": {
        "tags": {
            "type": "array",
            "items": {"enum": ["a", "b"]},
            "uniqueItems": True,
            "minItems": 2,
        },
    },
    "required": ["tags"],
}
TEXTS = ('{"tags":["a","b"]}', '{"tags":["b","a"]}')
THINK_END = "</think>"


class ThinkParser:
    """A reasoning parser: an answer begins after one token."""

    def __init__(self, tokenizer: Any, **_: Any) -> None:
        self.end = tokenizer.encode("!", add_special_tokens=False)[0]

    def is_reasoning_end(self, input_ids: Any) -> bool:
        return self.end in list(input_ids)

    def is_reasoning_end_streaming(self, _: Any, delta_ids: Any) -> bool:
        return self.end in list(delta_ids)


class Host:
    def __init__(
        self,
        folder: str,
        max_num_seqs: int = 4,
        drafts: int = 0,
        config: Any = None,
        drafter: str = "ngram",
    ) -> None:
        register()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.size = len(self.tokenizer) + 64  # models have more logits than tokens
        self.model_config = SimpleNamespace(
            is_diffusion=False,
            skip_tokenizer_init=False,
            get_vocab_size=lambda: self.size,
            try_get_generation_config=lambda: {"eos_token_id": self.tokenizer.eos_token_id},
            hf_config=SimpleNamespace(model_type="llama"),
        )
        self.config = SimpleNamespace(
            model_config=self.model_config,
            structured_outputs_config=config or StructuredOutputsConfig(backend="guided"),
            scheduler_config=SimpleNamespace(max_num_seqs=max_num_seqs),
            parallel_config=SimpleNamespace(distributed_executor_backend="mp"),
            num_speculative_tokens=drafts,
            speculative_config=SimpleNamespace(model=drafter) if drafts else None,
        )
        module = inspect.getmodule(StructuredOutputManager)
        assert module is not None
        module.cached_tokenizer_from_config = lambda **_: self.tokenizer  # type: ignore[attr-defined]
        self.manager = StructuredOutputManager(self.config)
        self.bitmask = torch.zeros((1, (self.size + 31) // 32), dtype=torch.int32)

    def tokens(self, text: str, *, end: bool = True) -> list[int]:
        tokens = self.tokenizer.encode(text, add_special_tokens=False)
        return [*tokens, self.tokenizer.eos_token_id] if end else tokens

    def request(self, number: int = 0, max_tokens: int = 200, **constraint: Any) -> Any:
        asked = StructuredOutputsParams(**(constraint or {"json": SCHEMA}))
        params = SamplingParams(structured_outputs=asked, max_tokens=max_tokens)
        params.update_from_generation_config({}, self.tokenizer.eos_token_id)
        config = self.config.structured_outputs_config
        params._validate_structured_outputs(self.model_config, config, self.tokenizer)
        assert asked._backend == config.backend
        made = StructuredOutputRequest(params=asked)
        request = SimpleNamespace(
            request_id=f"r{number}",
            sampling_params=params,
            structured_output_request=made,
            use_structured_output=True,
            prompt_token_ids=[],
            all_token_ids=[],
        )
        self.manager.grammar_init(request)
        while not made.is_grammar_ready:
            pass
        if isinstance(made.grammar, Exception):
            raise made.grammar
        assert isinstance(made.grammar, StructuredOutputGrammar)
        return request

    def masks(self, requests: list[Any], drafts: dict[str, list[int]] | None = None) -> Any:
        listed = {request.request_id: request for request in requests}
        return self.manager.grammar_bitmask(listed, [*listed], drafts or {}).copy()

    def allowed(self, row: Any) -> set[int]:
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        return {int(token) for token in np.flatnonzero(bits)}


def refusal(call: Callable[[], object]) -> str:
    """The message of vLLM for a call that it has to refuse."""
    try:
        call()
    except (ValueError, VLLMValidationError) as error:
        return str(error)
    raise AssertionError("it was not refused")


def the_classes_are_what_vllm_asks_for() -> None:
    for ours, theirs in (
        (GuidedBackend, StructuredOutputBackend),
        (GuidedGrammar, StructuredOutputGrammar),
    ):
        assert issubclass(ours, theirs)
        for name in theirs.__abstractmethods__:
            wanted = inspect.signature(getattr(theirs, name)).parameters
            assert [*inspect.signature(getattr(ours, name)).parameters][1:] == [*wanted][1:] or (
                name == "fill_bitmask"
            ), name


def the_name_is_one_of_vllms() -> None:
    names = get_args(StructuredOutputsConfig.__annotations__["backend"])
    assert names.count("guided") == 1
    assert "xgrammar" in names
    assert "'guided'" in refusal(lambda: StructuredOutputsConfig(backend="guidde"))


def masks_lead_to_answers(host: Host) -> None:
    for number, text in enumerate(TEXTS):
        request = host.request(number)
        for token in host.tokens(text):
            (row,) = host.masks([request])
            allowed = host.allowed(row)
            assert token in allowed
            assert max(allowed) < len(host.tokenizer)
            assert host.manager.accept_tokens(request, [token])
        assert request.structured_output_request.grammar.is_terminated()
    request = host.request()
    wrong = host.tokens('{"tags":["a","a', end=False)
    assert not host.manager.accept_tokens(request, wrong)


def drafts_are_validated_filled_and_taken_back(host: Host) -> None:
    right = host.tokens(TEXTS[0])
    wrong = host.tokens('{"tags":["a","a"]}')
    same = next(n for n, (one, other) in enumerate(zip(right, wrong, strict=False)) if one != other)
    request, other = host.request(0), host.request(1)
    assert host.manager.validate_tokens(request, wrong[:6]) == wrong[: min(same, 6)]
    assert host.manager.validate_tokens(request, [right[0], -1, -1]) == [right[0]]
    before = host.masks([request])[0]
    drafts = right[:3]
    rows = host.masks([request, other], {"r0": drafts, "r1": []})
    for row, token in zip(rows, drafts, strict=False):
        assert token in host.allowed(row)
    assert right[3] in host.allowed(rows[3])
    assert (host.masks([request])[0] == before).all()
    assert host.manager.accept_tokens(request, right)


def forced_runs_come_before_drafts(host: Host) -> None:
    request = host.request(choice=["perhaps not"])
    text = host.tokens("perhaps not")
    assert len(text) > 2
    assert host.manager.validate_tokens(request, []) == text[:2], "no more than are scheduled"
    assert host.manager.validate_tokens(request, [text[0]]) == text[:2]
    assert host.manager.accept_tokens(request, text[:-1])
    assert host.manager.validate_tokens(request, []) == [host.tokenizer.eos_token_id]
    free = SimpleNamespace(use_structured_output=False)
    assert host.manager.validate_tokens(free, [1]) == [1]
    host.manager.reasoner_cls = ThinkParser
    assert host.manager.validate_tokens(host.request(choice=["perhaps not"]), []) == []


def reasoning_is_free(host: Host) -> None:
    host.manager.reasoner_cls = ThinkParser
    request = host.request()
    end = ThinkParser(host.tokenizer).end
    thought = host.tokens("so", end=False)
    (row,) = host.masks([request])
    assert set(thought) <= host.allowed(row)
    request.all_token_ids += thought
    assert host.manager.accept_tokens(request, thought)
    request.all_token_ids.append(end)
    assert host.manager.accept_tokens(request, [end])
    (row,) = host.masks([request])
    assert host.allowed(row).isdisjoint(thought)
    assert host.manager.accept_tokens(request, host.tokens(TEXTS[0]))


def answers_end_before_they_are_cut_off(host: Host) -> None:
    request = host.request(regex="(ab)*!", max_tokens=9)
    for place in range(9):
        (row,) = host.masks([request])
        allowed = host.allowed(row)
        token = host.tokens("ab"[place % 2], end=False)[0]
        assert host.manager.accept_tokens(request, [token if token in allowed else min(allowed)])
    assert request.structured_output_request.grammar.is_terminated()


def many_rows_are_filled_by_threads(host: Host) -> None:
    texts = [host.tokens(text) for text in TEXTS]
    requests = [host.request(number) for number in range(150)]
    for number, request in enumerate(requests):
        assert host.manager.accept_tokens(request, texts[number % 2][: number % 7])
    rows = host.masks(requests)
    for number, row in enumerate(rows):
        assert texts[number % 2][number % 7] in host.allowed(row)


def what_cannot_be_had_is_refused(host: Host) -> None:
    for constraint, message in (
        ({"json": {"type": "integer", "minimum": 5, "maximum": 3}}, "no document satisfies"),
        ({"json": "{"}, "the schema is not JSON"),
        ({"regex": "(a"}, "unterminated subpattern"),
        ({"grammar": "root ::= nope"}, "'nope' is not defined"),
        ({"choice": []}, "no options"),
        ({"structural_tag": json.dumps({"format": {"type": "dispatch"}})}, "'dispatch' cannot be"),
        ({"json": {}, "whitespace_pattern": " "}, "whitespace_pattern is not honoured"),
    ):
        said = refusal(partial(host.request, **constraint))
        assert message in said, (constraint, said)


def others_are_served_as_before(host: Host) -> None:
    config = StructuredOutputsConfig(backend="xgrammar")
    params = SamplingParams(structured_outputs=StructuredOutputsParams(json=SCHEMA))
    check = partial(params._validate_structured_outputs, host.model_config, config, host.tokenizer)
    assert "xgrammar" in refusal(check)  # which has no uniqueItems


def main() -> None:
    folder = sys.argv[1]
    for _ in range(2):
        register()
    the_name_is_one_of_vllms()
    host = Host(folder)
    the_classes_are_what_vllm_asks_for()
    masks_lead_to_answers(host)
    answers_end_before_they_are_cut_off(host)
    what_cannot_be_had_is_refused(host)
    others_are_served_as_before(host)
    reasoning_is_free(host)
    drafts_are_validated_filled_and_taken_back(Host(folder, drafts=3))
    drafter = f"{ForcedRuns.__module__}.{ForcedRuns.__name__}"
    forced_runs_come_before_drafts(Host(folder, drafts=2, drafter=drafter))
    many_rows_are_filled_by_threads(Host(folder, max_num_seqs=256))
    print(vllm.__version__)


if __name__ == "__main__":
    main()
