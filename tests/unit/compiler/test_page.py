"""The page about masks shows code that runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from guided.compiler import Compiler
from guided.masks.mask import Mask, tokens_of
from tests.kit.built_tokenizers import BUILT, loaded

_PAGE = Path(__file__).parents[3] / "docs" / "mask-api.md"


def test_the_page_shows_code_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = loaded(BUILT["built like GPT-2"]())
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>"})
    tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)

    def choose(mask: Mask) -> int:
        return int(draw.choice(tokens_of(mask)))

    blocks = re.findall(r"```python\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {"choose": choose}
    for block in blocks:
        exec(block, names)  # noqa: S102 - it is our own
    compiler, answer = names["compiler"], names["answer"]
    assert isinstance(compiler, Compiler)
    assert isinstance(answer, list)
    assert {"name", "age"} <= json.loads(compiler.vocabulary.decode(answer)).keys()
