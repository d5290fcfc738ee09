"""OpenAI's API and the metrics of a Ray cluster, called by OpenAI's own client and by Prometheus's.

``make test-ray`` runs these. Most engines echo: these tests check how calls reach them and return.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="make test-ray runs these")

import httpx2
import openai
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, Field

from guided import Client, RawPrompt
from guided.bearer import new_token, token_hash
from guided.client import wait_until_serving
from tests.kit.tiny_model import save_tiny_model
from tests.ray.cluster import Serving, cluster, echo_config
from tests.service.test_supervision import eventually

ENGINES = 2
LOST = "the engine ended while the request ran; try again"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """An ingress and two engines, all on one node, with room for the next ingress."""
    with cluster(tmp_path_factory.mktemp("ray"), nodes=1, cpus=ENGINES + 2) as found:
        found.deploy(echo_config(found.port, ENGINES, per_node=ENGINES))
        wait_until_serving(found.address, 120)
        yield found


@pytest.fixture
def client(served: Serving) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def chat(client: openai.OpenAI, content: str, **options: Any) -> Any:
    asked: Any = {"role": "user", "content": content}
    return client.chat.completions.create(model="echo", messages=[asked], **options)


def test_an_answer(served: Serving, client: openai.OpenAI) -> None:
    answer = chat(client, "hello", max_completion_tokens=3)
    assert answer.choices[0].message.content == "hello"
    assert [each.id for each in client.models.list()] == ["echo"]
    assert httpx2.get(f"{served.url}/health").json() == {"status": "SERVING"}


def test_every_answer_has_one_id_which_a_caller_may_choose(served: Serving) -> None:
    body = {"model": "echo", "prompt": "hello", "max_tokens": 3}
    for sent in ({}, {"x-request-id": "job-7"}):
        answer = httpx2.post(f"{served.url}/v1/completions", json=body, headers=sent)
        (told,) = answer.headers.get_list("x-request-id")
        assert answer.json()["id"] == f"cmpl-{told}"
        assert told == sent.get("x-request-id", told)


def test_a_stream_grows(client: openai.OpenAI) -> None:
    parts = list(chat(client, "hello", max_completion_tokens=5, stream=True))
    said = [part.choices[0].delta.content or "" for part in parts if part.choices]
    assert "".join(said) == "hello"
    assert len([text for text in said if text]) > 1
    assert parts[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("content", "options", "status", "param", "message"),
    [
        ("hello", {"max_tokens": 0}, 400, "max_tokens", "should be greater than or equal to 1"),
        ("hello", {"model": "other"}, 404, "model", "there is no model 'other'"),
        ("fail later", {"max_tokens": 5}, 400, None, "the rest is odd"),
        ("bug in submit", {"max_tokens": 5}, 500, None, "incident"),
    ],
)
def test_errors_are_those_of_a_server(
    served: Serving,
    content: str,
    options: dict[str, Any],
    status: int,
    param: str | None,
    message: str,
) -> None:
    body = {"model": "echo", "prompt": content, **options}
    answer = httpx2.post(f"{served.url}/v1/completions", json=body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert message in error["message"]
    assert error["param"] == param


def test_paths_and_bodies_that_are_refused(served: Serving) -> None:
    def post(path: str, **sent: Any) -> int:
        return httpx2.post(f"{served.url}{path}", **sent).status_code

    assert post("/v1/nowhere", json={}) == 404
    assert post("/health", json={}) == 405
    assert post("/playground/answer", json={}) == 404
    assert post("/v1/completions", content=b"x") == 415
    assert post("/v1/completions", json=["x" * 5_000_000]) == 413


def test_a_stream_that_is_left_ends_in_its_engine(served: Serving) -> None:
    before = ended(served, "cancelled")
    body = {"model": "echo", "prompt": "wait", "max_tokens": 3, "stream": True}
    with httpx2.stream("POST", f"{served.url}/v1/completions", json=body) as stream:
        next(stream.iter_lines())
    eventually(lambda: ended(served, "cancelled") > before)


def test_streams_that_are_left_while_text_comes_fast_end_too(served: Serving) -> None:
    before = ended(served, "cancelled")
    for i in range(20):
        body = {"model": "echo", "prompt": f"{i}" * 20_000, "max_tokens": 20_000, "stream": True}
        with httpx2.stream("POST", f"{served.url}/v1/completions", json=body) as stream:
            next(stream.iter_lines())
    eventually(lambda: ended(served, "cancelled") == before + 20)


def test_an_answer_that_is_left_ends_in_its_engine(served: Serving) -> None:
    before = ended(served, "cancelled")
    body = {"model": "echo", "prompt": "wait", "max_tokens": 3}
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{served.url}/v1/completions", json=body, timeout=0.5)
    eventually(lambda: ended(served, "cancelled") > before)


def samples(served: Serving, **options: Any) -> list[Any]:
    """Every sample of the metrics."""
    answer = httpx2.get(f"{served.url}/metrics", **options)
    assert answer.status_code == 200
    families = list(text_string_to_metric_families(answer.text))
    assert len({family.name for family in families}) == len(families)
    return [sample for family in families for sample in family.samples]


def ended(served: Serving, outcome: str) -> float:
    """The number of requests with this outcome, in all engines."""
    total: float = sum(
        each.value
        for each in samples(served)
        if each.name == "guided_requests_total" and each.labels["outcome"] == outcome
    )
    return total


def engines_up(served: Serving) -> dict[str, float]:
    """Whether each replica has an engine."""
    return {
        each.labels["replica"]: each.value
        for each in samples(served)
        if each.name == "guided_engine_up"
    }


def test_metrics_are_those_of_every_replica(served: Serving) -> None:
    with Client(served.address) as client:
        answers = {
            client.generate(RawPrompt(f"who {i} {'x' * 600}"), max_tokens=2).text for i in range(20)
        }
        assert len(answers) == ENGINES
        total = sum(client.stats().answered.values())
    eventually(lambda: ended(served, "stop") >= total)
    found = samples(served)
    engines = set(served.replicas())
    assert engines_up(served) == dict.fromkeys(engines, 1)
    answered = {
        each.labels["replica"]: each.value
        for each in found
        if each.name == "guided_requests_total" and each.labels["outcome"] == "stop"
    }
    assert answered.keys() == engines
    assert min(answered.values()) > 0
    assert {each.labels["model"] for each in found if "model" in each.labels} == {"echo"}
    (door,) = [each for each in found if each.name == "guided_requests_in_flight"]
    assert {door.labels["replica"]} == set(served.replicas("Ingress"))


def long_stream(served: Serving, digit: str) -> Any:
    """A stream of some seconds, the like of which no engine has seen."""
    body = {"model": "echo", "prompt": digit * 5000, "max_tokens": 5000, "stream": True}
    return httpx2.stream("POST", f"{served.url}/v1/completions", json=body, timeout=60)


def test_streams_of_a_killed_engine_end_with_an_error(
    served: Serving, client: openai.OpenAI
) -> None:
    with ExitStack() as opened:
        streams = [
            opened.enter_context(long_stream(served, digit)).iter_lines() for digit in "1234"
        ]
        for each in streams:
            next(each)
        name, process = served.replicas().popitem()
        os.kill(process, signal.SIGKILL)
        last = [[line for line in each if line][-1] for each in streams]
    lost = [json.loads(line.removeprefix("data: "))["error"] for line in last if "error" in line]
    assert 0 < len(lost) < len(streams)
    assert {each["message"] for each in lost} == {LOST}
    assert last.count("data: [DONE]") == len(streams) - len(lost)
    assert chat(client, "hello", max_completion_tokens=3).choices[0].message.content == "hello"
    engines = served.wait_for(ENGINES, name)
    eventually(lambda: engines_up(served) == dict.fromkeys(engines, 1))


def test_a_stream_of_a_killed_ingress_is_cut_off(served: Serving, client: openai.OpenAI) -> None:
    with long_stream(served, "5") as stream:
        lines = stream.iter_lines()
        next(lines)
        (process,) = served.replicas("Ingress").values()
        os.kill(process, signal.SIGKILL)
        with pytest.raises(httpx2.RemoteProtocolError):
            list(lines)
    # Until the next one is there, calls wait for it.
    assert chat(client, "hello", max_completion_tokens=3).choices[0].message.content == "hello"


def test_tokens_are_required_on_every_path_but_that_of_health(
    served: Serving, tmp_path: Path
) -> None:
    token = new_token()
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[me]\nsha256 = "{token_hash(token)}"\n')
    served.deploy(echo_config(served.port, ENGINES, per_node=ENGINES, tokens=str(tokens)))
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError, match="no token that this server knows"):
            chat(stranger, "hello")
        with pytest.raises(openai.AuthenticationError):
            stranger.models.list()
    assert httpx2.get(f"{served.url}/metrics").status_code == 401
    assert httpx2.get(f"{served.url}/health").status_code == 200
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=token) as known:
        assert chat(known, "hello").choices[0].message.content == "hello"
    assert samples(served, headers={"authorization": f"Bearer {token}"})


class Weather(BaseModel):
    """Tell the weather of a place."""

    city: str = Field(max_length=8)
    days: int = Field(ge=1, le=9)


def test_a_model_answers_within_its_schema_and_calls_tools(served: Serving, tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model")
    config = echo_config(served.port, 1, model=str(model), threads=1)
    config["applications"][0]["import_path"] = "guided_service.ray.app:build"
    served.deploy(config)
    asked: Any = [{"role": "user", "content": "Which weather?"}]
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
        common: Any = {"model": str(model), "messages": asked, "max_completion_tokens": 90}
        parsed = client.chat.completions.parse(response_format=Weather, **common)
        assert isinstance(parsed.choices[0].message.parsed, Weather)
        tools: Any = [openai.pydantic_function_tool(Weather)]
        answer = client.chat.completions.create(tools=tools, tool_choice="required", **common)
        (call,) = answer.choices[0].message.tool_calls or []
        assert call.type == "function"
        assert call.function.name == "Weather"
        Weather.model_validate_json(call.function.arguments)
        scored = list(
            client.chat.completions.create(stream=True, logprobs=True, top_logprobs=1, **common)
        )
        told = [part.choices[0].logprobs for part in scored if part.choices]
        assert any(each is not None and each.content for each in told), "not only where it is whole"
