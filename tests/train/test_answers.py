"""Prompts, and the answers that a target gives to them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from benchmarks.training_overlap import Overlap, overlap
from guided.errors import RequestError
from guided.spec import GenerationRequest, JsonSchema, Lark, Message
from guided.train.answers import AnswerFile, make_answers, wanted_answers
from guided.train.prompts import made_prompts, read_prompts
from tests.engine.tiny_models import make_engine, render, words
from tests.kit.json_lines import lines_of
from tests.kit.pages import ROOT

_WORDS = ("abc", '{"name"', "cdna12")


def _file(path: Path, model: str = "tiny") -> AnswerFile:
    return AnswerFile(path, model=model, vocabulary="v")


def _wanted(count: int, temperature: float = 1.0) -> dict[str, GenerationRequest]:
    prompts = {
        str(number): GenerationRequest(
            prompt=f"ab{number}", constraint=words(*_WORDS), max_tokens=12
        )
        for number in range(count)
    }
    return wanted_answers(prompts, temperature=temperature)


def _make(path: Path, wanted: dict[str, GenerationRequest]) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []
    engine = make_engine()
    make_answers(
        engine, render, _file(path), wanted, at_once=3, tell=lambda *pair: told.append(pair)
    )
    return told


def test_every_prompt_is_answered_within_its_constraint(tmp_path: Path) -> None:
    wanted = _wanted(7)
    told = _make(tmp_path / "a.jsonl", wanted)
    answers = _file(tmp_path / "a.jsonl").answers(wanted)
    assert [answer.key for answer in answers] == list(wanted)
    rows = [json.loads(line) for line in lines_of((tmp_path / "a.jsonl").read_text("utf-8"))[1:]]
    assert {row["text"] for row in rows} <= {*_WORDS}
    assert [row["temperature"] for row in rows].count(1.0) == 3
    for answer, row in zip(answers, rows, strict=True):
        assert list(answer.tokens) == row["prompt"] + row["answer"]
        assert len(answer.chosen) == len(answer.tokens)
        assert not any(answer.chosen[: len(row["prompt"])])
        assert 0 < sum(answer.chosen) < len(row["answer"])
    assert (told[0], told[-1]) == ((0, 7), (7, 7))


def test_what_was_answered_is_not_answered_again(tmp_path: Path) -> None:
    path, wanted = tmp_path / "a.jsonl", _wanted(6)
    _make(path, dict(list(wanted.items())[:4]))
    before = path.read_text()
    # A killed process leaves half a line.
    path.write_text(before + '{"key": "5f')
    assert _make(path, wanted)[0] == (4, 6)
    assert path.read_text().startswith(before)
    assert len(_file(path).answers(wanted)) == 6


def test_answers_may_hold_what_ends_a_line_elsewhere(tmp_path: Path) -> None:
    """JSON escapes neither of them, so a line of the file has them as they are."""
    path, text = tmp_path / "a.jsonl", "a\u2028b\x85c"
    with _file(path).writing() as add:
        add({"key": "1", "prompt": [1], "answer": [2], "chosen": "1", "text": text})
    assert "1" in _file(path)
    (tmp_path / "prompts.jsonl").write_text(
        json.dumps({"prompt": text}, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (request,) = read_prompts(tmp_path / "prompts.jsonl").values()
    assert request.prompt == (Message("user", text),)


def test_the_same_prompts_give_the_same_answers(tmp_path: Path) -> None:
    wanted = _wanted(5)
    for name in ("a.jsonl", "b.jsonl"):
        _make(tmp_path / name, wanted)
    first, second = (_file(tmp_path / name).answers(wanted) for name in ("a.jsonl", "b.jsonl"))
    assert first == second


def test_a_request_that_fails_is_noted_and_left_out(tmp_path: Path) -> None:
    wanted = _wanted(3)
    key = list(wanted)[1]
    wanted[key] = GenerationRequest(prompt="a" * 600, constraint=words("ab"), max_tokens=4)
    _make(tmp_path / "a.jsonl", wanted)
    file = _file(tmp_path / "a.jsonl")
    assert len(file.answers(wanted)) == 2
    (error,) = file.errors(wanted)
    assert "512" in error


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("no json\n", "holds no answers"),
        ('{"format": 1, "model": "other", "vocabulary": "v"}\n', "holds answers of 'other'"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(RequestError, match=reason):
        _file(path)


def test_made_prompts_are_different_and_repeatable() -> None:
    prompts = made_prompts(300, seed=1)
    assert prompts == made_prompts(300, seed=1)
    assert list(prompts.values())[:50] == list(made_prompts(50, seed=1).values())
    assert len({request.prompt for request in prompts.values()}) == 300
    constraints = {request.constraint for request in prompts.values()}
    assert len(constraints) > 100
    for each in constraints - {None}:
        assert isinstance(each, JsonSchema)
        jsonschema.Draft202012Validator.check_schema(json.loads(each.text))
    assert None in constraints


@pytest.mark.parametrize("workload", [None, ROOT / "benchmarks/peers/workload.jsonl"])
def test_made_prompts_share_nothing_with_what_speed_is_measured_on(workload: Path | None) -> None:
    """Workloads measure prompts that no drafter has seen."""
    from guided.bench import read_workload

    made, measured = made_prompts(2000).values(), read_workload(workload).values()
    assert overlap(made, measured) == Overlap(frozenset(), frozenset(), frozenset())


def test_what_sets_of_prompts_share_is_found() -> None:
    schema = '{"type": "object", "title": "a"}'
    long = "one two three four five six seven eight"
    first = [GenerationRequest(prompt=f"{long} nine", constraint=JsonSchema(schema))]
    sorted_too = JsonSchema('{"title":"a","type":"object"}')
    found = overlap(first, [GenerationRequest(prompt=f"so {long}", constraint=sorted_too)])
    assert found.prompts == frozenset()
    assert found.schemas == {'{"title": "a", "type": "object"}'}
    assert found.runs == {long}
    assert overlap(first, first).prompts == {f"{long} nine"}


def test_prompts_are_read_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"id": "one", "prompt": "Hi", "schema": {"type": "object"}, "max_tokens": 9}\n\n'
    )
    (tmp_path / "b.jsonl").write_text(
        '{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}],'
        ' "grammar": "start: \\"a\\""}\n'
    )
    first, second = read_prompts(tmp_path).values()
    assert (first.constraint, first.max_tokens) == (JsonSchema('{"type": "object"}'), 9)
    assert isinstance(second.constraint, Lark)
    assert isinstance(second.prompt, tuple)
    assert [message.role for message in second.prompt] == ["system", "user"]


def test_ids_are_those_of_all_files_and_lines_without_one_never_meet(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text('{"prompt": "Hi"}\n{"id": "one", "prompt": "a"}\n')
    second.write_text('{"prompt": "Ho"}\n')
    assert len(read_prompts(tmp_path)) == 3
    second.write_text('\n{"id": "one", "prompt": "b"}\n')
    with pytest.raises(RequestError, match=r"line 2 of .*b\.jsonl: the id 'one' came before"):
        read_prompts(tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{}", "either a prompt or messages"),
        ('{"messages": []}', "either a prompt or messages"),
        ('{"prompt": "a", "shema": {}}', "shema: Extra inputs"),
        ('{"prompt": "a", "max_tokens": 0}', "max_tokens"),
        ('{"prompt": "a", "schema": {}, "grammar": "start: \\"a\\""}', "both a schema"),
        ("", "holds no prompts"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(RequestError, match=reason) as caught:
        read_prompts(path)
    assert "a.jsonl" in str(caught.value)
