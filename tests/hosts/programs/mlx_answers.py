"""The code of docs/hosts/mlx-lm.md with the model of a folder: run by test_mlx_lm.py.

    python mlx_answers.py FOLDER

Greedy and at random, with many tokens and few: ends with status 0 if all answers fit.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm import generate, load
from mlx_lm.sample_utils import make_sampler

from guided.compiler import Compiler
from guided.integrations.mlx_lm import ConstrainedLogits

PAGE = Path(__file__).parents[3] / "docs/hosts/mlx-lm.md"
SCHEMA = {
    "type": "array",
    "items": {"enum": ["red", "green", "blue"]},
    "uniqueItems": True,
    "minItems": 3,
}


def main() -> None:
    folder = sys.argv[1]
    mx.set_default_device(mx.cpu)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = re.sub(r'load\(".*"\)', f"load({folder!r})", code)
    names: dict[str, Any] = {"__name__": "page"}
    exec(code, names)  # noqa: S102 - of our own page
    assert isinstance(names["someone"], names["Person"]), names["said"]
    model, tokenizer = load(folder)
    colours = Compiler(tokenizer._tokenizer, num_logits=model.args.vocab_size).compile(SCHEMA)
    for temperature in (0.0, 1.0, 1.0):
        for max_tokens in (200, 18):
            only = ConstrainedLogits(colours, max_tokens=max_tokens)
            said = generate(
                model,
                tokenizer,
                "Three colours:",
                sampler=make_sampler(temp=temperature),
                logits_processors=[only],
                max_tokens=max_tokens,
            )
            assert sorted(json.loads(said)) == ["blue", "green", "red"], said


if __name__ == "__main__":
    main()
