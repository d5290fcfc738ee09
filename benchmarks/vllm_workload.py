"""Sends the workload's requests to a server of OpenAI's API and counts the valid answers.

    python vllm_workload.py http://localhost:8000/v1 MODEL [WORKLOAD]

Eight calls at a time, greedy. An answer is valid if it is JSON that fits its schema; a request
without a schema accepts any text.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import jsonschema_rs

from guided.bench.workload import read_workload
from guided.spec import GenerationRequest, JsonSchema, Message


def _ask(url: str, model: str, request: GenerationRequest) -> tuple[str, int]:
    """Return the outcome of a request, and the tokens of its answer."""
    message = request.prompt[0]
    assert isinstance(message, Message)
    body = {
        "model": model,
        "messages": [{"role": "user", "content": message.content}],
        "max_tokens": request.most_tokens,
        "temperature": 0,
    }
    constraint = request.constraint
    if isinstance(constraint, JsonSchema):
        named = {"name": "it", "schema": json.loads(constraint.text)}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    response = httpx2.post(f"{url}/chat/completions", json=body, timeout=600)
    if response.status_code != 200:
        return f"refused: {response.json()['error']['message'][:90]}", 0
    read = response.json()
    text, tokens = read["choices"][0]["message"]["content"], read["usage"]["completion_tokens"]
    if not isinstance(constraint, JsonSchema):
        return "valid", tokens
    try:
        document = json.loads(text)
    except ValueError:
        return f"no JSON ({read['choices'][0]['finish_reason']})", tokens
    fits = jsonschema_rs.is_valid(json.loads(constraint.text), document)
    return "valid" if fits else "does not fit", tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("workload", type=Path, nargs="?", help="JSON lines, as guided bench takes")
    asked = parser.parse_args()
    requests = read_workload(asked.workload)
    began = time.perf_counter()
    with ThreadPoolExecutor(8) as calls:
        told = [*calls.map(lambda one: _ask(asked.url, asked.model, one), requests.values())]
    seconds, tokens = time.perf_counter() - began, sum(count for _, count in told)
    for name, (said, _) in zip(requests, told, strict=True):
        if said != "valid":
            print(name, said)
    valid = sum(said == "valid" for said, _ in told)
    print(f"{valid} of {len(told)} valid, {tokens} tokens in {seconds:.1f} s")


if __name__ == "__main__":
    main()
