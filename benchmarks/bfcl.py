"""Runs the function calls of BFCL, with schemas enforced and free, scored by its checker.

`python -m benchmarks.bfcl PYTHON [--model MODEL] [--examples N] [--answers FOLDER] [CATEGORY ...]`

PYTHON is an interpreter with `bfcl-eval` installed (the questions are in that package). Each
question is sent to a server of the model in three ways (`Way`), at temperature 0. In a category
with one call per answer, `parallel_tool_calls: false` is set. A model whose chat template supports
tools is refused, because its free conversation would be another prompt.

Calls that `calls_in_text` finds in free text count. If the right answer is no call, none is
required. A question whose functions the server refuses counts as wrong in every way.

Answers are stored in FOLDER as they come: a later run continues where the last one ended, and
`--score` reads them again without a server.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.bfcl_answers import Kept, Question, Way
from guided.client import Client
from tests.service.http_server import serving_http
from tests.service.server_process import REAL_SERVER

CATEGORIES: Final = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
)
_SUITE: Final = str(Path(__file__).with_name("bfcl_suite.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Calls of functions, constrained and free.")
    parser.add_argument("python")
    parser.add_argument("categories", nargs="*", default=CATEGORIES)
    parser.add_argument("--model")
    parser.add_argument("--examples", type=int, default=50)
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--score", action="store_true")
    options = parser.parse_intermixed_args()
    with TemporaryDirectory() as temporary:
        folder = options.answers or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not options.score:
            _ask(options, folder)
        print("| category | questions | held | auto | calls | free | calls | refused |")
        print("|---|---|---|---|---|---|---|---|")
        for category in options.categories:
            print(_row(options.python, folder, category), flush=True)


def _ask(options: argparse.Namespace, folder: Path) -> None:
    settings = {} if options.model is None else {"model": options.model}
    with (
        TemporaryDirectory() as logs,
        serving_http(REAL_SERVER, Path(logs, "log"), settings, timeout=600) as server,
        Client(server.process.address) as client,
    ):
        model = client.model()
        assert model.tool_format == "hermes", f"{model.name} has tools in its template"
        for category in options.categories:
            told = _suite(options.python, "questions", category, str(options.examples))
            asked = [Question(**json.loads(line)) for line in told.splitlines()]
            for way in _ways(category):
                Kept(folder, category, way).ask(server.url, model.name, asked)


def _ways(category: str) -> list[Way]:
    return [way for way in Way if way is not Way.HELD or "irrelevance" not in category]


def _row(python: str, folder: Path, category: str) -> str:
    """Return a row over the questions that were answered in every way."""
    kept = {way: Kept(folder, category, way).by_id() for way in _ways(category)}
    ids = sorted(set.intersection(*map(set, kept.values())))
    cells = [category, str(len(ids))]
    for way in Way:
        if way not in kept:
            cells.append("")
            continue
        verdicts = _verdicts(python, category, way, [kept[way][one] for one in ids])
        cells.append(str(sum(one["right"] for one in verdicts)))
        if way is not Way.HELD:
            cells.append(str(sum(one["calls"] for one in verdicts)))
    cells.append(str(sum("refused" in kept[Way.AUTO][one] for one in ids)))
    return f"| {' | '.join(cells)} |"


def _verdicts(
    python: str, category: str, way: Way, answers: list[dict[str, Any]]
) -> list[dict[str, bool]]:
    told = [{"id": one["id"], **_said(way, one["message"])} for one in answers if "message" in one]
    sent = "\n".join(map(json.dumps, told))
    judged = iter(json.loads(_suite(python, "score", category, sent=sent)))
    refused = {"calls": False, "right": False}
    return [next(judged) if "message" in one else refused for one in answers]


def _said(way: Way, message: dict[str, Any]) -> dict[str, Any]:
    """Return the calls of an answer, or the text to search for them."""
    if way is Way.FREE:
        return {"text": message["content"]}
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return {"calls": [{call["name"]: json.loads(call["arguments"])} for call in calls]}


def _suite(python: str, *arguments: str, sent: str = "") -> str:
    done = subprocess.run(
        [python, _SUITE, *arguments], input=sent, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    main()
