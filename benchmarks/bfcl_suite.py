"""Prints the questions of BFCL and runs its checker, for ``bfcl.py``; needs ``bfcl-eval``.

``PYTHON bfcl_suite.py questions CATEGORY COUNT`` prints questions, one JSON object per line;
``PYTHON bfcl_suite.py score CATEGORY`` reads a line for each answer, with its ``calls``, or with a
``text`` that may contain some, and prints for each whether it calls and whether it is right. Both
use the functions of the package, which needs `soundfile` in addition to its declared dependencies.
In a category of relevance an answer with a call is right, in one of irrelevance an answer without.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from bfcl_eval.constants.enums import Language, ModelStyle, ReturnFormat
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING
from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
from bfcl_eval.model_handler.utils import convert_to_tool, default_decode_ast_prompting
from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry
from calls_in_text import Calls, calls_in


def questions(category: str, count: int) -> Iterator[dict[str, Any]]:
    for one in load_dataset_entry(category)[:count]:
        functions = told(one["function"])
        yield {"id": one["id"], "messages": one["question"][0], "functions": functions}


def told(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tools = convert_to_tool(functions, GORILLA_TO_OPENAPI, ModelStyle.OPENAI_COMPLETIONS)
    return [tool["function"] for tool in tools]


def scores(category: str, answers: list[dict[str, Any]]) -> Iterator[dict[str, bool]]:
    # Hints about languages are for the model: the checker needs the types themselves.
    entries = load_dataset_entry(category, include_language_specific_hint=False)
    asked = {one["id"]: one["function"] for one in entries}
    is_about_calling = "relevance" in category
    truths = [] if is_about_calling else load_ground_truth_entry(category)
    right = {one["id"]: one["ground_truth"] for one in truths}
    for answer in answers:
        functions = asked[answer["id"]]
        calls = read(category, functions, answer)
        if is_about_calling:
            is_right = bool(calls) != ("irrelevance" in category)
        else:
            is_right = checked(category, functions, calls, right[answer["id"]])
        yield {"calls": bool(calls), "right": is_right}


def read(category: str, functions: list[dict[str, Any]], answer: dict[str, Any]) -> Calls:
    if "calls" in answer:
        calls: Calls = answer["calls"]
        return calls
    names = {one["name"].replace(".", "_") for one in functions}
    language = language_of(category)
    decode = None if language == Language.PYTHON else partial(decoded, ReturnFormat(language.value))
    return calls_in(answer["text"], names, decode)


def decoded(form: ReturnFormat, text: str) -> Calls:
    """Decode calls as BFCL does for models whose functions are described in the prompt."""
    try:
        return [
            {name: given for name, given in call.items() if None not in given}
            for call in default_decode_ast_prompting(text, form) or []
        ]
    except Exception:  # text that is no call fails in many ways there
        return []


def checked(category: str, functions: list[Any], calls: Calls, right: list[Any]) -> bool:
    # The checker looks up how a listed model writes names: take any that has _ for a dot, as here.
    model = next(name for name, one in MODEL_CONFIG_MAPPING.items() if one.underscore_to_dot)
    verdict = ast_checker(functions, calls, right, language_of(category), category, model)
    return bool(verdict["valid"])


def language_of(category: str) -> Language:
    spoken = {"simple_java": Language.JAVA, "simple_javascript": Language.JAVASCRIPT}
    return spoken.get(category, Language.PYTHON)


def main(action: str, category: str, count: str = "0") -> None:
    if action == "questions":
        for one in questions(category, int(count)):
            print(json.dumps(one))
    else:
        print(json.dumps([*scores(category, [json.loads(line) for line in sys.stdin])]))


if __name__ == "__main__":
    main(*sys.argv[1:])
