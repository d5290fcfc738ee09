"""Processors of hosts that show all tokens of one answer at each step."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.compiler import Compiled, Compiler
from guided.errors import LimitExceededError, RequestError
from guided.integrations.llama_cpp import ConstrainedLogits
from guided.spec import TokenId
from tests.kit.pages import run_blocks
from tests.kit.tiny_vocabulary import tiny_vocabulary

VOCABULARY = tiny_vocabulary()
NUM_LOGITS = len(VOCABULARY) + 37  # models have more logits than tokenizers have tokens
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


class Llama:
    """Calls processors like llama-cpp-python: with all token ids, and scores within a record."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self.calls = 0

    def n_vocab(self) -> int:
        return NUM_LOGITS

    def create_completion(
        self, prompt: str, *, logits_processor: list[ConstrainedLogits], max_tokens: int
    ) -> dict[str, Any]:
        ids = [VOCABULARY.byte_ids[byte] for byte in prompt.encode()]
        begin = len(ids)
        while len(ids) < begin + max_tokens:
            record = np.recarray((NUM_LOGITS,), dtype=[("id", np.intc), ("logit", np.single)])
            record.logit[:] = self._rng.normal(size=NUM_LOGITS)
            for processor in logits_processor:
                record.logit[:] = processor(np.array(ids, dtype=np.intc), record.logit)
            self.calls += 1
            if (token := int(np.argmax(record.logit))) in VOCABULARY.end_ids:
                break
            ids.append(TokenId(token))
        text = b"".join(VOCABULARY.token_bytes[token] or b"" for token in ids[begin:])
        return {"choices": [{"text": text.decode(errors="replace")}]}


@pytest.fixture(scope="module")
def person() -> Compiled:
    return Compiler(VOCABULARY).compile(SCHEMA)


@pytest.mark.parametrize("max_tokens", [16, 40, 400])
def test_answers_fit_and_end_within_their_tokens(person: Compiled, max_tokens: int) -> None:
    for seed in range(8):
        only = ConstrainedLogits(person, max_tokens=max_tokens)
        said = Llama(seed).create_completion("x{", logits_processor=[only], max_tokens=max_tokens)
        value = json.loads(said["choices"][0]["text"])
        assert len(value["name"]) <= 12
        assert value["age"] in range(121)


def test_the_page_is_right() -> None:
    """Its code, with a stand-in for a model of llama-cpp-python; the class on the page is ours."""
    given = {"llama": Llama(), "tokenizer": VOCABULARY, "LogitsProcessorList": list}
    replaced = {
        "from llama_cpp import Llama, LogitsProcessorList\n": "",
        "from transformers import AutoTokenizer\n": "",
        'llama = Llama("model.gguf", n_ctx=2048)\n': "",
        'tokenizer = AutoTokenizer.from_pretrained("the model\'s folder")\n': "",
        "Compiler(tokenizer, num_logits=llama.n_vocab())": "Compiler(tokenizer)",
    }
    names = run_blocks("docs/hosts/llama-cpp-python.md", given, replaced)
    assert isinstance(names["someone"], names["Person"])


def scores() -> NDArray[np.single]:
    return np.zeros(NUM_LOGITS, dtype=np.single)


def test_behind_its_end_an_answer_may_only_end_and_masks_are_new_arrays() -> None:
    only = ConstrainedLogits(Compiler(VOCABULARY).compile({"const": 1}))
    (end,), one = VOCABULARY.end_ids, VOCABULARY.byte_ids[ord("1")]
    given = scores()
    for tokens, allowed in ([[7], [one]], [[7, one], [end]], [[7, one, end], [end]]):
        told = only(np.array(tokens, dtype=np.intc), given)
        assert np.flatnonzero(told == 0).tolist() == allowed
        assert not given.any()
        assert np.array_equal(told, only(np.array(tokens, dtype=np.intc), given))


def test_tokens_that_do_not_go_on_are_refused(person: Compiled) -> None:
    for later in ([1], [1, 2, VOCABULARY.byte_ids[ord("x")]]):
        only = ConstrainedLogits(person)
        only(np.array([1, 2], dtype=np.intc), scores())
        with pytest.raises(RequestError, match="do not go on from the 2 before"):
            only(np.array(later, dtype=np.intc), scores())


@pytest.mark.parametrize("raw", [int, SCHEMA, '{"type": "null"}'])
def test_what_is_not_compiled_is_refused(raw: Any) -> None:
    with pytest.raises(RequestError, match=r"is not a compiled constraint; pass what Compiler"):
        ConstrainedLogits(raw)


def test_fewer_logits_than_tokens_are_refused(person: Compiled) -> None:
    with pytest.raises(RequestError, match="the model has 9 logits"):
        ConstrainedLogits(person)(np.array([1], dtype=np.intc), scores()[:9])


def test_no_answer_so_short_is_cut_off_as_any_other(person: Compiled) -> None:
    said = Llama().create_completion(
        "x", logits_processor=[ConstrainedLogits(person, max_tokens=4)], max_tokens=4
    )
    with pytest.raises(json.JSONDecodeError):
        json.loads(said["choices"][0]["text"])


def test_limits_are_those_of_the_compiler() -> None:
    with pytest.raises(LimitExceededError):
        Compiler(VOCABULARY).compile({"type": "array", "minItems": 10**9, "items": {"const": 1}})
