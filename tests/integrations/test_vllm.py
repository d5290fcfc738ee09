"""guided inside vLLM, as far as that shows without it; tests/hosts runs vLLM itself."""

from __future__ import annotations

import json
import logging
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from guided.compiler import Compiler
from guided.errors import GuidedError, RequestError, UnsupportedFeatureError
from guided.integrations.json_form import JsonForm
from guided.integrations.vllm import backend as backends
from guided.integrations.vllm import register, requests
from guided.integrations.vllm.backend import GuidedBackend
from guided.integrations.vllm.forced_runs import (
    ForcedRuns,
    ForcedRunsOrNgrams,
    forcing_of_environment,
)
from guided.integrations.vllm.requests import check_request, structure_of
from guided.spec import Choice, Ebnf, Forcing, JsonOptions, JsonSchema, Lark, Regex, Structure
from guided.spec.composition import JsonObject, Text
from tests.kit.walks import BYTES, END

FORM = JsonForm(JsonOptions())
MODEL = SimpleNamespace(get_vocab_size=lambda: 300, try_get_generation_config=dict)


def asked(**constraint: Any) -> Any:
    nothing = dict.fromkeys(
        ("json", "regex", "choice", "grammar", "json_object", "structural_tag", "_backend")
    )
    wishes = {
        "disable_any_whitespace": False,
        "disable_additional_properties": False,
        "whitespace_pattern": None,
        "__post_init__": lambda: None,
    }
    return SimpleNamespace(**(nothing | wishes | constraint))


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """One compiler for all tests, in place of those made from a tokenizer of transformers."""
    made = Compiler(BYTES)
    for module in (requests, backends):
        monkeypatch.setattr(module, "compiler_of", lambda *_: made)
    return made


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("json", '{"type": "null"}', JsonSchema('{"type": "null"}')),
        ("json_object", "", JsonObject()),
        ("regex", "a+", Regex("a+")),
        ("choice", '["a", "b"]', Choice(["a", "b"])),
        ("grammar", 'root ::= "a"', Ebnf('root ::= "a"')),
        ("grammar", 'start: "a"', Lark('start: "a"')),
        ("grammar", '%llguidance {}\nstart: "::="', Lark('%llguidance {}\nstart: "::="')),
        ("structural_tag", '{"format": {"type": "const_string", "value": "a"}}', Text("a")),
    ],
)
def test_each_kind_of_constraint_is_read(kind: str, text: str, expected: Structure) -> None:
    read = structure_of(kind, text, FORM)
    assert read.digest() == expected.digest()


def test_a_kind_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="of the kind 'xml' are not known"):
        structure_of("xml", "", FORM)


@pytest.mark.parametrize(
    "constraint",
    [
        {"json": {"type": "null"}},
        {"json": '{"type": "null"}', "disable_any_whitespace": True},
        {"json_object": True, "disable_additional_properties": True},
        {"choice": ["a"]},
        {"regex": "a", "_backend": "guided"},
    ],
)
def test_what_can_be_had_is_served_by_guided(constraint: dict[str, Any]) -> None:
    request = asked(**constraint)
    check_request(request, MODEL, object())
    assert request._backend == "guided"


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ({"json": {"type": "nul"}}, "at /type: "),
        ({"json": {"not": {}}}, "no document satisfies the schema"),
        ({"json_object": False}, "json_object is false"),
        ({"regex": "a", "whitespace_pattern": " "}, "whitespace_pattern is not honoured"),
        ({"regex": "a", "_backend": "xgrammar"}, "names the backend 'xgrammar'"),
        ({}, "no constraint is given"),
    ],
)
def test_what_cannot_be_had_is_refused(constraint: dict[str, Any], message: str) -> None:
    request = asked(**constraint)
    with pytest.raises(GuidedError, match=message):
        check_request(request, MODEL, object())
    assert request._backend == constraint.get("_backend")


def test_wishes_are_refused_where_the_server_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GUIDED_JSON", '{"whitespace": "free", "objects": "open"}')
    for name in ("disable_any_whitespace", "disable_additional_properties"):
        with pytest.raises(UnsupportedFeatureError, match=f"{name} is not honoured"):
            check_request(asked(json={}, **{name: True}), MODEL, object())
    with pytest.raises(RequestError, match="without a tokenizer"):
        check_request(asked(json={}), MODEL, None)


def test_a_request_goes_through_the_backend() -> None:
    config = SimpleNamespace(model_config=MODEL)
    backend = GuidedBackend(config, object(), vocab_size=300)
    bitmask = backend.allocate_token_bitmask(2)
    assert (bitmask.shape, bitmask.dtype) == ((2, 10), torch.int32)
    grammar = backend.compile_grammar(SimpleNamespace(name="CHOICE"), json.dumps(["ab"]), {299})
    a, b = (ord(letter) + 1 for letter in "ab")
    assert grammar.validate_tokens([a, a]) == [a]
    assert grammar.accept_tokens("r", [a, b])
    grammar.fill_bitmask(bitmask, 1)
    bits = [token for token in range(320) if bitmask[1, token // 32] >> token % 32 & 1]
    assert bits == [END, 299]
    assert grammar.accept_tokens("r", [299])
    assert grammar.is_terminated()
    grammar.rollback(2)
    assert not grammar.is_terminated()
    assert grammar.accept_tokens("r", [b])
    grammar.reset()
    assert grammar.validate_tokens([a]) == [a]


def test_what_has_to_come_is_told_with_the_end() -> None:
    backend = GuidedBackend(SimpleNamespace(model_config=MODEL), object(), vocab_size=300)
    grammar = backend.compile_grammar(SimpleNamespace(name="CHOICE"), json.dumps(["abc", "abd"]))
    a, b, c = (ord(letter) + 1 for letter in "abc")
    assert grammar.forced(END) == [a, b]
    assert grammar.accept_tokens("r", [a, b, c])
    assert grammar.forced(END) == [END]
    assert grammar.forced(None) == []


def test_the_environment_says_whether_masks_narrow() -> None:
    assert forcing_of_environment({}) is Forcing.OFF
    assert forcing_of_environment({"GUIDED_FORCING": "canonical"}) is Forcing.CANONICAL
    with pytest.raises(RequestError, match="GUIDED_FORCING says 'strict'; known are off and can"):
        forcing_of_environment({"GUIDED_FORCING": "strict"})


@pytest.mark.parametrize("drafter", [ForcedRuns, ForcedRunsOrNgrams])
@pytest.mark.parametrize(
    ("version", "backend", "message"),
    [
        ("0.33.0", "guided", "not tried with vllm 0.33.0; install vllm 0.32"),
        ("0.3.2", "guided", "not tried with vllm 0.3.2"),
        ("0.32.0", "xgrammar", "only the backend 'guided' knows forced runs"),
    ],
)
def test_forced_runs_are_refused_where_there_would_be_none(
    drafter: type[ForcedRuns],
    version: str,
    backend: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("vllm")
    module.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    config = SimpleNamespace(structured_outputs_config=SimpleNamespace(backend=backend))
    with pytest.raises(UnsupportedFeatureError, match=message):
        drafter(config)


@pytest.mark.parametrize("version", ["0.30.2", "0.34.0", "1.0", "dev"])
def test_versions_that_were_not_tested_are_left_alone_and_told(
    version: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    vllm = ModuleType("vllm")  # it has none of the places that the plugin changes
    vllm.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    with caplog.at_level(logging.WARNING):
        register()
    assert f"guided was not tested with vllm {version}, so there is no" in caplog.text
    assert "install vllm 0.31 to 0.33" in caplog.text
