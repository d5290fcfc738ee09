"""The figures of whole answers, and which answers count."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers.answers import Answers, Request, totals
from benchmarks.peers.back_ends.llama_server import compact_gbnf
from guided.bench import read_workload
from guided.spec import JsonSchema
from tests.kit.pages import ROOT

REQUEST: Request = {
    "id": "a",
    "prompt": "?",
    "schema": {"type": "object", "required": ["n"]},
    "max_tokens": 9,
}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"n":1}', ""),
        ("{}", "ValidationError: 'n' is a required property"),
        ('{"n":', "JSONDecodeError: Expecting value: line 1 column 6 (char 5)"),
    ],
)
def test_an_answer_counts_if_it_is_json_that_fits(text: str, error: str) -> None:
    answers = Answers({})
    answers.add(REQUEST, text, 3, 1.0)
    assert (answers.rows[0]["valid"], answers.rows[0]["error"]) == (not error, error)


def test_figures_are_over_all_answers_and_objects_are_the_valid_ones() -> None:
    answers = Answers({})
    answers.add(REQUEST, '{"n":"\u00e9"}', 6, 1.0, compile_s=0.25)
    answers.add(REQUEST, "{}", 4, 3.0, compile_s=0.5)
    answers.fail(REQUEST, ValueError("no"))
    found = totals(answers.rows, 4.0, 5)
    assert found.pop("peak_rss_mib")
    assert found == {
        "requests": 3,
        "failed": 1,
        "valid": 1,
        "wall_s": 4.0,
        "compile_s": 0.75,
        "out_tokens": 10,
        "forwards": 5,
        "tokens_per_forward": 2.0,
        "tok_s": 2.5,
        "bytes_s": 3.0,
        "objects_s": 0.25,
    }


def test_a_grammar_for_llama_cpp_is_made_compact() -> None:
    grammar = 'root ::= "{" space "}"\nspace ::= | " "\nspaces ::= space'
    assert compact_gbnf(grammar) == 'root ::= "{" space "}"\nspace ::= ""\nspaces ::= space'


def test_the_workload_has_a_schema_and_a_bound_for_every_answer() -> None:
    requests = read_workload(Path(ROOT, "benchmarks/peers/workload.jsonl"))
    assert len(requests) == 24
    assert all(isinstance(each.constraint, JsonSchema) for each in requests.values())
