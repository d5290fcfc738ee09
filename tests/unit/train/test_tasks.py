"""Tasks as files of JSON lines, and those that are made."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from guided.errors import RequestError
from guided.spec import JsonSchema, Lark, Message
from guided.train.reward_tune.extraction import KINDS, extraction_tasks
from guided.train.reward_tune.rewards import Judge
from guided.train.reward_tune.tasks import Task, compact, read_tasks, write_tasks


def _read(folder: Path, *lines: str) -> tuple[Task, ...]:
    file = folder / "tasks.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return read_tasks(file)


def test_rows_become_tasks(tmp_path: Path) -> None:
    by_schema, by_grammar = _read(
        tmp_path,
        '{"prompt": "Hi", "schema": {"type": "number"}, "expected": 2.0}',
        "",
        '{"id": "b", "messages": [{"role": "system", "content": "S"}, {"role": "user", "content":'
        ' "U"}], "grammar": "start: \\"x\\"", "max_tokens": 5}',
    )
    schema = JsonSchema('{"type": "number"}')
    assert by_schema == Task("1", (Message("user", "Hi"),), schema, "2", 256)
    turns = (Message("system", "S"), Message("user", "U"))
    assert by_grammar == Task("b", turns, Lark('start: "x"'), None, 5)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"schema": {}}', "exactly one of prompt and messages"),
        ('{"prompt": "Hi"}', "exactly one of schema and grammar"),
        ('{"prompt": "Hi", "schema": {}, "grammar": ""}', "exactly one of schema and grammar"),
        ('{"prompt": "Hi", "schema": {}, "answer": 1}', "answer: Extra inputs"),
        ('{"prompt": "Hi", "grammar": "x", "expected": 1}', "expected of a grammar is a text"),
        ('{"prompt": "Hi", "schema": {}, "max_tokens": 0}', "max_tokens 0 is below 1"),
        ('{"messages": [], "schema": {}}', "end with one of the user"),
        ('{"messages": [{"role": "no", "content": ""}], "schema": {}}', "role 'no'"),
        ("{", "Invalid JSON"),
    ],
)
def test_rows_that_cannot_be_used_are_told_by_their_line(
    tmp_path: Path, row: str, message: str
) -> None:
    with pytest.raises(RequestError, match=rf"line 2 of .*: .*{message}"):
        _read(tmp_path, '{"id": "a", "prompt": "Hi", "schema": {}}', row)


def test_names_must_differ_and_a_file_must_hold_something(tmp_path: Path) -> None:
    row = '{"id": "a", "prompt": "Hi", "schema": {}}'
    with pytest.raises(RequestError, match="the id 'a' came before"):
        _read(tmp_path, row, row)
    with pytest.raises(RequestError, match="holds no task"):
        _read(tmp_path, "")


def test_tasks_are_read_as_they_were_written(tmp_path: Path) -> None:
    made, _ = extraction_tasks(20, 0)
    tasks = (*made, Task("g", (Message("user", "ü\u2028\x85"),), Lark('start: "x"'), "x", 3))
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    assert read_tasks(tmp_path / "tasks.jsonl") == tasks


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1.0, "a": [2.5, True, None]}, '{"b":1,"a":[2.5,true,null]}'),
        ("ü\n", '"ü\\n"'),
        (-0.0, "0"),
    ],
)
def test_compact_json(value: object, text: str) -> None:
    assert compact(value) == text


def test_made_tasks_repeat_and_do_not_overlap() -> None:
    train, held_out = extraction_tasks(300, 50, seed=3)
    assert (train, held_out) == extraction_tasks(300, 50, seed=3)
    assert extraction_tasks(10, 50, seed=3)[1] == held_out
    assert extraction_tasks(300, 50, seed=4)[0] != train
    prompts = [task.messages for task in (*train, *held_out)]
    assert len(set(prompts)) == 350
    assert {task.name.rpartition("-")[0] for task in train} == KINDS.keys()


def test_made_tasks_have_answers_that_their_texts_and_schemas_hold() -> None:
    judge = Judge()
    for task in extraction_tasks(100, 0, seed=1)[0]:
        judge.check(task)
        text = task.messages[0].content
        told = [value for value in task.expected_value.values() if not isinstance(value, bool)]
        assert all(str(value) in text for value in told)
        schema = task.constraint
        assert isinstance(schema, JsonSchema)
        assert list(json.loads(schema.text)["properties"]) == list(task.expected_value)


def test_made_tasks_hold_nothing_that_is_measured_elsewhere() -> None:
    lines = (files("guided.bench") / "workload.jsonl").read_text("utf-8").splitlines()
    measured = [json.loads(line) for line in lines]
    names = {
        frozenset(row["schema"].get("properties", ())) for row in measured if "schema" in row
    } - {frozenset()}
    assert names
    for task in extraction_tasks(500, 0)[0]:
        assert task.messages[0].content not in {row["prompt"] for row in measured}
        assert frozenset(task.expected_value) not in names
