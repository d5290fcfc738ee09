"""The questions of BFCL and its own checker, for ``bfcl.py``; runs where ``bfcl-eval`` is.

``PYTHON bfcl_suite.py questions CATEGORY COUNT`` prints questions, a JSON object a line;
``PYTHON bfcl_suite.py score CATEGORY`` reads such lines with ``calls`` and prints whether each is
right. Both are done by the functions of the package, which needs `soundfile` besides what it names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from bfcl_eval.constants.enums import Language, ModelStyle
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING
from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
from bfcl_eval.model_handler.utils import convert_to_tool

DATA = files("bfcl_eval") / "data"


def lines_of(*path: str) -> list[dict[str, Any]]:
    text = DATA.joinpath(*path).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def questions(category: str, count: int) -> Iterator[dict[str, Any]]:
    for one in lines_of(f"BFCL_v4_{category}.json")[:count]:
        style = ModelStyle.OPENAI_COMPLETIONS
        tools = convert_to_tool(one["function"], GORILLA_TO_OPENAPI, style)
        functions = [tool["function"] for tool in tools]
        yield {"id": one["id"], "messages": one["question"][0], "functions": functions}


def scores(category: str, answers: list[dict[str, Any]]) -> Iterator[bool]:
    asked = {one["id"]: one["function"] for one in lines_of(f"BFCL_v4_{category}.json")}
    right = {
        one["id"]: one["ground_truth"]
        for one in lines_of("possible_answer", f"BFCL_v4_{category}.json")
    }
    # The checker asks how a model of its list writes names: any that has _ for a dot, as here.
    model = next(name for name, one in MODEL_CONFIG_MAPPING.items() if one.underscore_to_dot)
    for answer in answers:
        key, calls = answer["id"], answer["calls"]
        verdict = ast_checker(asked[key], calls, right[key], Language.PYTHON, category, model)
        yield bool(verdict["valid"])


def main(action: str, category: str, count: str = "0") -> None:
    if action == "questions":
        for one in questions(category, int(count)):
            print(json.dumps(one))
    else:
        print(json.dumps([*scores(category, [json.loads(line) for line in sys.stdin])]))


if __name__ == "__main__":
    main(*sys.argv[1:])
