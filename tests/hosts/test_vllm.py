"""vLLM itself with guided as its backend: ``make test-vllm``.

It is installed in an environment of its own, whose Python ``GUIDED_VLLM`` names, and serves the
default model on the CPU.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest
import torch
from safetensors.torch import save_file

from guided.bench.workload import read_workload
from guided.drafters.heads import MedusaHeads, MedusaShape, save_medusa
from guided.model.default_model import fetch_default_model
from guided.model.progress import RichProgress
from guided.spec import JsonSchema, Message

PYTHON = os.environ.get("GUIDED_VLLM", "")
ROOT = Path(__file__).parents[2]
OPTIONS = [
    "--structured-outputs-config.backend=guided",
    "--served-model-name=default",
    "--max-model-len=2048",
    "--max-num-seqs=8",
    "--enforce-eager",
]
CHECKED_BY_TWO = [
    # Drafts, so that masks are filled ahead and matchers taken back, and two processes that check.
    '--speculative-config={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}',
    "--api-server-count=2",
]
FORCED_RUNS = [
    '--speculative-config={"model": "guided.integrations.vllm.forced_runs.ForcedRuns",'
    ' "num_speculative_tokens": 16}',
]
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",  # vLLM's n-gram lookup starts that many for the model as well
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
UNIQUE = {
    "type": "array",
    "items": {"enum": ["red", "green", "blue"]},
    "uniqueItems": True,
    "minItems": 3,
}

pytestmark = pytest.mark.skipif(not PYTHON, reason="make test-vllm runs these")


@pytest.fixture(scope="module")
def model() -> Path:
    return fetch_default_model(RichProgress())


@pytest.fixture(scope="module")
def url(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(model, tmp_path_factory.mktemp("vllm") / "log", CHECKED_BY_TWO) as url:
        yield url


@contextmanager
def serving(model: Path, log: Path, options: list[str], **environment: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", f"--model={model}"]
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, f"--port={port}", "--host=127.0.0.1", *OPTIONS, *options],
            env=os.environ | ENVIRONMENT | environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait(server, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(600):
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            if httpx2.get(url).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(1)
    raise AssertionError(log.read_text()[-3000:])


def ask(url: str, prompt: str = "Answer.", **fields: Any) -> httpx2.Response:
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": 200,
    }
    return httpx2.post(f"{url}/chat/completions", json=body | fields, timeout=300)


def answer(response: httpx2.Response) -> str:
    assert response.status_code == 200, response.text
    choice = response.json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    text = choice["message"]["content"]
    assert isinstance(text, str)
    return text


def test_vllms_manager_is_served(model: Path) -> None:
    program = ROOT / "tests/hosts/programs/vllm_contract.py"
    done = subprocess.run(
        [PYTHON, str(program), str(model)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


@torch.inference_mode()
def test_medusa_heads_that_we_write_say_the_same_in_vllm(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = MedusaHeads(MedusaShape(32, 64, heads=3, layers=2))
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    save_medusa(tmp_path / "heads", module, base_model="some/model")
    states, expected = torch.randn(5, 32), tmp_path / "expected.safetensors"
    save_file({"states": states, "logits": module(states)}, expected)
    program = ROOT / "tests/hosts/programs/vllm_medusa.py"
    done = subprocess.run(
        [PYTHON, str(program), str(tmp_path / "heads"), str(expected)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_answer_of_the_workload_is_valid(url: str) -> None:
    requests = read_workload()

    def served(name: str) -> bool:
        request = requests[name]
        assert isinstance(request.prompt, tuple)
        constraint, message = request.constraint, request.prompt[0]
        assert isinstance(message, Message)
        if constraint is None:
            return ask(url, message.content, max_tokens=request.max_tokens).status_code == 200
        assert isinstance(constraint, JsonSchema)
        schema = json.loads(constraint.text)
        said = ask(
            url,
            message.content,
            max_tokens=request.max_tokens,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "it", "schema": schema},
            },
        )
        return jsonschema_rs.is_valid(schema, json.loads(answer(said)))

    with ThreadPoolExecutor(8) as calls:
        assert [*calls.map(served, requests)] == [True] * len(requests)


@pytest.mark.parametrize(
    ("outputs", "answers"),
    [
        ({"json": UNIQUE}, None),
        ({"regex": "[a-c]{3}-[0-9]{2}!"}, None),
        ({"choice": ["perhaps"]}, {"perhaps"}),
        ({"grammar": 'root ::= "ab" ("c" | "d")'}, {"abc", "abd"}),
        ({"grammar": 'start: "ab" ("c" | "d")'}, {"abc", "abd"}),
        (
            {
                "structural_tag": json.dumps(
                    {
                        "type": "structural_tag",
                        "format": {
                            "type": "tag",
                            "begin": "<x>",
                            "content": {"type": "json_schema", "json_schema": {"const": 1}},
                            "end": "</x>",
                        },
                    }
                )
            },
            {"<x>1</x>"},
        ),
    ],
)
def test_each_kind_of_constraint_is_served(
    url: str, outputs: dict[str, Any], answers: set[str] | None
) -> None:
    text = answer(ask(url, structured_outputs=outputs))
    if answers is not None:
        assert text in answers
    elif "json" in outputs:
        jsonschema_rs.validate(outputs["json"], json.loads(text))
    else:
        assert text[3] == "-"
        assert text[-1] == "!"


def test_what_cannot_be_enforced_is_a_400_and_hurts_nobody(url: str) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"json": {"type": "integer", "minimum": 5, "maximum": 3}}, "no document satisfies"),
        ({"json": {"type": "strin"}}, "at /type"),
        ({"regex": "(a"}, "unterminated subpattern"),
        ({"grammar": "root ::= nope"}, "line 1, column 10: the rule 'nope' is not defined"),
        ({"regex": "a", "whitespace_pattern": " "}, "whitespace_pattern is not honoured"),
    ]
    for outputs, message in refused * 2:  # each process has its turn
        said = ask(url, structured_outputs=outputs)
        assert said.status_code == 400, said.text
        assert message in said.json()["error"]["message"]
    assert answer(ask(url, structured_outputs={"choice": ["alive"]})) == "alive"


def test_forced_runs_are_drafts_that_the_model_takes(model: Path, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"favourite_colour": {"enum": ["red", "green"]}, "is_sure": {"const": True}},
        "required": ["favourite_colour", "is_sure"],
        "additionalProperties": False,
    }
    with serving(model, tmp_path / "log", FORCED_RUNS, GUIDED_FORCING="canonical") as url:
        with ThreadPoolExecutor(3) as calls:
            said = [*calls.map(lambda _: ask(url, structured_outputs={"json": schema}), range(3))]
        for one in said:
            jsonschema_rs.validate(schema, json.loads(answer(one)))
        drafts, accepted = drafts_of(url)
        assert accepted == drafts
        assert accepted > sum(one.json()["usage"]["completion_tokens"] for one in said) / 2
        assert ask(url, max_tokens=8).status_code == 200
        assert drafts_of(url) == (drafts, accepted), "where nothing is asked for nothing is forced"


def drafts_of(url: str) -> tuple[float, float]:
    """The number of drafts that the model has read, and how many of these it accepted."""
    lines = httpx2.get(f"{url.removesuffix('/v1')}/metrics").text.splitlines()
    told = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    counts = {name.partition("{")[0]: float(count) for name, count in told.items()}
    return (
        counts["vllm:spec_decode_num_draft_tokens_total"],
        counts["vllm:spec_decode_num_accepted_tokens_total"],
    )
