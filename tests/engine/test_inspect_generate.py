"""``guided inspect --generate``, with a tiny model in a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from guided.cli import main
from tests.engine.test_devices import SCHEMA, make_config
from tests.engine.tiny_models import from_config
from tests.kit.tokenizers import real_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    from_config(make_config()).save_pretrained(path)
    real_tokenizer("smollm2").save_pretrained(path)
    (path / "schema.json").write_text(SCHEMA.text, encoding="utf-8")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["guided", "inspect", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_an_answer_is_shown_with_the_trees_that_are_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "answer.html"
    asked = ("--system", str(folder / "system"), "--prompt", "Who?", "--max-tokens", "60")
    (folder / "system").write_text("Ada and Bob", encoding="utf-8")
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.content }}: {% endfor %}", encoding="utf-8"
    )
    request = ("--schema", str(folder / "schema.json"), "--model", str(folder))
    assert run(monkeypatch, *asked, *request, "--tree", "1", "--generate", "--html", str(file)) == 0
    answer, marks, *rest = capsys.readouterr().out.splitlines()
    assert json.loads(answer).keys() == {"name", "age"}
    assert marks.startswith("f")
    assert len(marks) == len(answer)
    headings = [line for line in rest if line.startswith("step ")]
    assert [heading.partition(":")[0] for heading in headings] == ["step 1"]
    assert "Ada␣and␣Bob:␣Who?:␣{" in rest[rest.index(headings[0]) + 1]
    page = file.read_text(encoding="utf-8")
    assert headings[0] in page
    assert "probability" in page


def test_a_step_that_was_not_made_is_refused_after_the_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--generate", "--regex", "ab", "--prompt", "x", "--model", str(folder), "--tree", "9")
    assert run(monkeypatch, *asked) == 1
    said = capsys.readouterr()
    assert said.out.startswith("ab\n")
    assert "there is no step 9: the answer took 0 model calls" in said.err


def test_requests_that_are_wrong_are_refused_before_a_model_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--generate", "--prompt", "x", "--model", "/nowhere", "-n", "2") == 1
    assert "/nowhere" not in capsys.readouterr().err
