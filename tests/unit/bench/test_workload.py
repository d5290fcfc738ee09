"""Workloads are read line by line, and a line that cannot be used is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guided.bench import read_workload
from guided.errors import GuidedError
from guided.spec import JsonSchema, Message


def test_the_workload_that_comes_along_is_sound() -> None:
    requests = read_workload()
    assert len(requests) == 8
    constrained = [r for r in requests.values() if isinstance(r.constraint, JsonSchema)]
    assert len(constrained) == 7


def test_only_the_prompt_has_to_be_there_and_keys_keep_their_order(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"z": {}, "a": {}}}
    file = tmp_path / "work.jsonl"
    rows = [{"prompt": "hello"}, {"id": "x", "prompt": "?", "schema": schema, "max_tokens": 7}]
    file.write_text("\n\n".join(map(json.dumps, rows)))
    requests = read_workload(file)
    assert list(requests) == ["1", "x"]
    assert requests["1"].prompt == (Message("user", "hello"),)
    assert (requests["1"].constraint, requests["1"].max_tokens) == (None, 256)
    assert requests["x"].constraint == JsonSchema(json.dumps(schema))
    assert requests["x"].max_tokens == 7


def test_a_prompt_may_hold_what_ends_a_line_elsewhere(tmp_path: Path) -> None:
    """JSON escapes neither of them, so a line of the file has them as they are."""
    file = tmp_path / "work.jsonl"
    file.write_text('{"prompt": "a\u2028b\x85c"}\r\n{"prompt": "d"}\n', encoding="utf-8")
    prompts = [request.prompt for request in read_workload(file).values()]
    assert prompts == [(Message("user", "a\u2028b\x85c"),), (Message("user", "d"),)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no request"),
        ('{"prompt": "a"}\n{"prompt": 3}', "line 2 of the workload: prompt: "),
        ('{"max_tokens": 3}', "line 1 of the workload: prompt: Field required"),
        ('{"prompt": "a", "scheme": {}}', "line 1 of the workload: scheme: Extra inputs"),
        ('{"prompt": "a", "max_tokens": "3"}', "line 1 of the workload: max_tokens: "),
        ("{prompt}", "line 1 of the workload: Invalid JSON"),
        ('{"prompt": "a", "max_tokens": 0}', "line 1 of the workload: max_tokens 0 is below 1"),
        ('{"id": "a", "prompt": "a"}\n{"id": "a", "prompt": "b"}', "the id 'a' came before"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "work.jsonl"
    file.write_text(text)
    with pytest.raises(GuidedError) as caught:
        read_workload(file)
    assert complaint in str(caught.value)
