"""Compares guided with xgrammar, vLLM's default, inside vLLM's own manager of structured outputs.

    python vllm_masks.py suite TOKENIZER
    python vllm_masks.py maskbench TOKENIZER maskbench-open.jsonl.gz
    python vllm_masks.py time TOKENIZER

Run it in an environment with vllm and guided, as made by `make test-vllm`, from the root of the
repository; `TOKENIZER` is a folder with a fast one. No model is loaded: requests are checked as API
servers check them, and compiled, masked and moved as in the engine.

*suite*: every required test of the official suite, as tokens; each token must be in the mask before
it is accepted. *maskbench*: schemas that vLLM does not give to xgrammar, or that xgrammar judges
wrong; a document is judged by the same walk. *time*: one call of `grammar_bitmask` for a batch
along documents of six schemas, the median, for both.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import os
import statistics
import time
from pathlib import Path

from vllm.config import StructuredOutputsConfig
from vllm.exceptions import VLLMValidationError

from tests.conformance.suite import DIALECTS, Part, groups
from tests.hosts.programs.vllm_contract import Host

_VARIABLE = "GUIDED_JSON"
_ANY_WAY = {
    "whitespace": None,
    "key_order": "any",
    "spelling": "any",
    "max_string_length": None,
    "max_number_digits": None,
    "objects": "open",
}


def _judge(host: Host, text: str, schema: str) -> bool | str:
    """Return whether a document is accepted, or why its schema is refused."""
    try:
        # Documents of any length: a budget would close longer ones before their end.
        request = host.request(max_tokens=1_000_000, json=schema)
    except (VLLMValidationError, RuntimeError) as error:  # of the check, and of compiling
        return str(error)
    grammar, bitmask = request.structured_output_request.grammar, host.bitmask
    for token in host.tokens(text):
        grammar.fill_bitmask(bitmask, 0)
        if not int(bitmask[0, token // 32]) >> token % 32 & 1:
            return False
        if not grammar.accept_tokens("r", [token]):
            return False
    return bool(grammar.is_terminated())


def suite(host: Host) -> None:
    counted: collections.Counter[str] = collections.Counter()
    for draft in DIALECTS:
        for group in groups(Part.REQUIRED, draft):
            if group.documents:
                counted["need other documents, which vLLM cannot be given"] += len(group.cases)
                continue
            for case in group.cases:
                said = _judge(host, case.text.decode(), group.text)
                if isinstance(said, str):
                    # A schema that no document fits is refused, which agrees with the suite.
                    said = said if "no document satisfies" not in said else False
                right = said == case.valid
                counted["right" if right else "refused" if isinstance(said, str) else "wrong"] += 1
                if not right:
                    print(group.name, "|", case.description, "|", str(said)[:100])
    print(dict(counted))


def maskbench(ours: Host, theirs: Host, file: Path, seconds: float) -> None:
    counted: collections.Counter[str] = collections.Counter()
    began = time.monotonic()
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            schema, tests = json.dumps(row["schema"]), row["tests"]
            verdicts = []
            for host in (theirs, ours):
                judged = []
                for test in tests:
                    said = _judge(host, json.dumps(test["data"], ensure_ascii=False), schema)
                    judged.append(said)
                    if isinstance(said, str):
                        break
                verdicts.append(judged)
            told = [_told(judged, [test["valid"] for test in tests]) for judged in verdicts]
            counted[f"xgrammar {told[0]}, guided {told[1]}"] += 1
            counted["schemas"] += 1
            if counted["schemas"] % 100 == 0:
                print(dict(counted), flush=True)
            if time.monotonic() - began > seconds:
                break
    for name, count in counted.most_common():
        print(count, name)


def _told(judged: list[bool | str], expected: list[bool]) -> str:
    if any(isinstance(said, str) for said in judged):
        return "refused"
    if any(said and not valid for said, valid in zip(judged, expected, strict=True)):
        return "weakened"
    return "right" if judged == expected else "too strict"


def timed(ours: Host, theirs: Host) -> None:
    from benchmarks.batch_masks import _SCHEMAS, _dumped

    for batch in (1, 8, 64):
        for name, host in (("guided", ours), ("xgrammar", theirs)):
            rounds = []
            texts = [host.tokens(_dumped(document)) for _, document in _SCHEMAS]
            requests = [
                host.request(number, json=json.dumps(_SCHEMAS[number % 6][0]))
                for number in range(batch)
            ]
            for place in range(min(map(len, texts)) - 1):
                listed = {request.request_id: request for request in requests}
                names = [*listed]
                for _ in range(5):
                    start = time.perf_counter()
                    host.manager.grammar_bitmask(listed, names, {})
                    rounds.append(time.perf_counter() - start)
                for number, request in enumerate(requests):
                    assert host.manager.accept_tokens(request, [texts[number % 6][place]])
            print(f"batch {batch}: {name} {statistics.median(rounds) * 1e6:.0f} us a step")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("suite", "maskbench", "time"))
    parser.add_argument("tokenizer")
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop MaskBench after these")
    asked = parser.parse_args()
    if asked.what != "time":
        formats = "annotate" if asked.what == "suite" else "assert"
        os.environ[_VARIABLE] = json.dumps(_ANY_WAY | {"format": formats})
    ours = Host(asked.tokenizer, max_num_seqs=64)
    if asked.what == "suite":
        suite(ours)
        return
    theirs = Host(
        asked.tokenizer, max_num_seqs=64, config=StructuredOutputsConfig(backend="xgrammar")
    )
    if asked.what == "time":
        timed(ours, theirs)
    else:
        maskbench(ours, theirs, asked.file, asked.seconds)


if __name__ == "__main__":
    main()
