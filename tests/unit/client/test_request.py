"""A request is checked when it is made."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
from pydantic import BaseModel

from guided.client import RawPrompt, Request
from guided.constraint import ConstraintCompiler
from guided.errors import (
    RequestError,
)
from guided.spec import (
    Forcing,
    JsonOptions,
    JsonSchema,
    Lark,
    Message,
    Rank,
    Regex,
    Sampling,
)
from tests.kit.walks import BYTES, accepts

PART: dict[str, Any] = {"type": "text", "text": "hel"}


def test_a_string_is_one_turn_of_the_user() -> None:
    assert Request("hello").specification.prompt == (Message("user", "hello"),)


def test_messages_go_as_they_are() -> None:
    turns = [Message("system", "be brief"), Message("user", "hello")]
    assert Request(turns).specification.prompt == tuple(turns)


def test_mappings_of_role_and_content_are_messages() -> None:
    turns: list[Message | dict[str, str]] = [
        {"role": "system", "content": "be brief"},
        Message("user", "hello"),
    ]
    spoken = (Message("system", "be brief"), Message("user", "hello"))
    assert Request(turns).specification.prompt == spoken


def test_parts_of_a_content_are_one_text() -> None:
    parts: list[dict[str, Any]] = [PART, {"type": "text", "text": "lo", "cache_control": None}]
    for turn in (
        {"role": "user", "content": parts},
        {"role": "user", "content": (*parts,)},
        Message("user", cast("Any", parts)),
    ):
        assert Request([turn]).specification.prompt == (Message("user", "hello"),)
    empty = Request([{"role": "system", "content": []}, Message("user", "hi")])
    assert empty.specification.prompt == (Message("system", ""), Message("user", "hi"))


def test_a_compiled_pattern_is_a_grammar_with_its_flags() -> None:
    assert Request("x", grammar=re.compile("[a-z]+")).specification.constraint == Regex("[a-z]+")
    flags = re.IGNORECASE | re.DOTALL
    request = Request("x", grammar=re.compile("a.", flags))
    assert request.specification.constraint == Regex("(?is)a.")
    start = ConstraintCompiler(BYTES).start(Regex("(?is)a."))
    assert accepts(start, b"A\n")


def test_a_function_is_not_a_type() -> None:
    """Pydantic would describe its arguments."""
    with pytest.raises(RequestError, match=r"response_model <function .*> is not a type"):
        Request("x", cast("Any", lambda: 1))


def test_a_raw_prompt_goes_around_the_template() -> None:
    assert Request(RawPrompt("Once upon")).specification.prompt == "Once upon"


def test_the_schema_of_a_model_keeps_the_order_of_its_fields() -> None:
    class Reversed(BaseModel):
        zebra: int
        ant: int

    constraint = Request("x", Reversed).specification.constraint
    assert isinstance(constraint, JsonSchema)
    assert list(json.loads(constraint.text)["properties"]) == ["zebra", "ant"]


def test_a_schema_as_text_is_not_touched() -> None:
    text = '{ "type":"integer" }'
    assert Request("x", schema=text).specification.constraint == JsonSchema(text)


def test_json_options_reach_the_schemas_in_a_grammar() -> None:
    text, options = "start: %json {}", JsonOptions(unknown_keywords="refuse")
    for given in ({"grammar": Lark(text)}, {"response_model": text}):
        request = Request("x", **given, json_options=options)
        assert request.specification.constraint == Lark(text, json_options=options)


def test_json_options_and_documents_reach_the_constraint() -> None:
    options = JsonOptions("free", key_order="any")
    documents: dict[str, str | dict[str, object]] = {"urn:b": {"type": "integer"}, "urn:a": "true"}
    request = Request("x", schema="{}", json_options=options, documents=documents)
    assert request.specification.constraint == JsonSchema(
        "{}", options, (("urn:a", "true"), ("urn:b", '{"type": "integer"}'))
    )


def test_options_reach_the_specification() -> None:
    specification = Request(
        "x",
        int,
        max_tokens=7,
        temperature=0.5,
        top_k=3,
        top_p=0.9,
        seed=11,
        min_p=0.1,
        typical_p=0.8,
        epsilon_cutoff=0.01,
        eta_cutoff=0.02,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        no_repeat_ngram_size=4,
        logit_bias={7: 1, 3: 0.5},
        stop=["a", "b"],
        stop_tokens=[5],
        include_stop=True,
        top_logprobs=2,
        forcing=Forcing.STRICT,
        show_schema=True,
    ).specification
    assert specification.max_tokens == 7
    assert specification.sampling == Sampling(
        temperature=0.5,
        top_k=3,
        top_p=0.9,
        seed=11,
        min_p=0.1,
        typical_p=0.8,
        epsilon_cutoff=0.01,
        eta_cutoff=0.02,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        no_repeat_ngram_size=4,
        logit_bias=((3, 0.5), (7, 1.0)),
    )
    assert (specification.stop, specification.stop_tokens) == (("a", "b"), (5,))
    assert specification.include_stop
    assert specification.top_logprobs == 2
    assert specification.forcing is Forcing.STRICT
    assert specification.show_schema


def test_contrastive_search_reaches_the_specification() -> None:
    sampling = Request("x", top_k=4, penalty_alpha=0.6).specification.sampling
    assert sampling == Sampling(top_k=4, penalty_alpha=0.6)


def test_the_rank_may_be_given_as_a_word() -> None:
    request = Request("x", n=2, best_of=3, temperature=1.0, rank="reward")
    assert request.specification.rank is Rank.REWARD
    with pytest.raises(RequestError, match="rank 'luck' is none of 'likelihood', 'reward'"):
        Request("x", best_of=3, temperature=1.0, rank=cast("Any", "luck"))


def test_one_stop_string_may_stand_for_itself() -> None:
    assert Request("x", stop="end").specification.stop == ("end",)
