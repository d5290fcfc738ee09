"""Calls over HTTP that come through Ray's proxy, and the metrics of several replicas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from prometheus_client import generate_latest

from guided.bearer import new_token, token_hash
from guided.spec import FinishReason
from guided.stats import EngineStats, ModelInfo
from guided.testing.walking_model import WalkingModel
from guided_service.admission import Admission
from guided_service.config import ServerConfig
from guided_service.door import Door
from guided_service.exposition import EngineCollector
from guided_service.health import HealthServicer
from guided_service.http.app import application
from guided_service.http.call import Face
from guided_service.http.errors import RefusedCallError
from guided_service.http.find_model import find_model
from guided_service.intake import Readers
from guided_service.ray.exposition import METRICS_PATH, Exposition, ReplicasCollector
from guided_service.ray.proxied_http import ProxiedHttp
from guided_service.request_watch import WatchesRequests
from guided_service.token_book import TokenBook
from tests.service.test_ray_totals import ONE

COMPLETIONS = "/v1/completions"


class Reports:
    """Two replicas with an engine, one that is replacing its own, and a model without any."""

    def reports(self) -> Mapping[str, Mapping[str, EngineStats | None]]:
        other = replace(ONE, answered={FinishReason.STOP: 5})
        return {"chat": {"a": ONE, "b": other, "c": None}, "code": {}}


@dataclass
class Answered:
    """What came back of one call."""

    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def ids(self) -> list[str]:
        headers = self.messages[0]["headers"]
        return [value.decode() for name, value in headers if name == b"x-request-id"]

    @property
    def body(self) -> bytes:
        return b"".join(each["body"] for each in self.messages[1:])


def called(
    path: str,
    body: object = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    book: TokenBook | None = None,
) -> Answered:
    """Make one call, as Ray's proxy passes it on."""
    answered = Answered()
    config = ServerConfig.model_construct()
    sent = {"content-type": "application/json", "x-request-id": "job-7", **headers}
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET" if body is None else "POST",
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("10.0.0.1", 5000),
    }

    async def scenario() -> None:
        coming = [{"type": "http.request", "body": json.dumps(body).encode()}]

        async def receive() -> dict[str, Any]:
            if coming:
                return coming.pop()
            await asyncio.Event().wait()
            raise AssertionError("the caller stays")

        async def send(message: Any) -> None:
            answered.messages.append(message)

        door, readers = Door(config), Readers()
        watch = WatchesRequests("guided", None, None)
        face = Face(WalkingModel(("world",)), door, readers, watch, book, config)
        collector = ReplicasCollector(Reports(), door.admission, "ingress")
        metrics = {METRICS_PATH: Exposition(face, collector)}
        app = ProxiedHttp(application(face, HealthServicer("guided", 1), metrics))
        await app(scope, receive, send)
        readers.close()

    asyncio.run(scenario())
    return answered


def test_an_answer_has_the_id_of_the_proxy_which_alone_sends_it() -> None:
    answered = called(COMPLETIONS, {"model": "no model", "prompt": "hello"})
    assert answered.status == 200
    told = json.loads(answered.body)
    assert told["choices"][0]["text"] == "world"
    assert told["id"] == "cmpl-job-7"
    assert answered.ids == []


def test_an_id_that_would_forge_a_line_of_the_log_is_replaced() -> None:
    answered = called(
        COMPLETIONS, {"model": "no model", "prompt": "hello"}, {"x-request-id": "a b"}
    )
    assert " " not in json.loads(answered.body)["id"]


def test_a_websocket_is_closed() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def never(*_: Any) -> Any:
        raise AssertionError("it is not passed on")

    asyncio.run(ProxiedHttp(never)({"type": "websocket"}, never, send))
    assert sent == [{"type": "websocket.close"}]


def test_metrics_need_a_token_where_tokens_are_needed(tmp_path: Path) -> None:
    token = new_token()
    file = tmp_path / "tokens.toml"
    file.write_text(f'[me]\nsha256 = "{token_hash(token)}"\n')
    assert called(METRICS_PATH).status == 200
    assert called(METRICS_PATH, book=TokenBook(file)).status == 401
    known = called(METRICS_PATH, headers={"authorization": f"Bearer {token}"}, book=TokenBook(file))
    assert known.status == 200
    assert b"guided_engine_up" in known.body
    assert called(METRICS_PATH, {}).status == 405


def test_metrics_of_all_replicas_have_the_names_of_a_server_and_labels() -> None:
    @dataclass
    class Alone:
        def models(self) -> list[ModelInfo]:
            return [ModelInfo("chat", 10, 10)]

        def stats(self) -> EngineStats:
            return ONE

    admission = Admission(1)
    collector = ReplicasCollector(Reports(), admission, "ingress")
    families = {each.name: each for each in collector.collect()}
    of_a_server = {each.name: each for each in EngineCollector(Alone(), admission).collect()}
    assert {name: (each.type, each.documentation) for name, each in families.items()} == {
        name: (each.type, each.documentation) for name, each in of_a_server.items()
    }

    def told(name: str, **labels: str) -> dict[str, float]:
        """Values of the samples with these labels, by replica."""
        return {
            sample.labels.get("replica", ""): sample.value
            for sample in families[name].samples
            if labels.items() <= sample.labels.items()
        }

    assert told("guided_engine_up", model="chat") == {"a": 1, "b": 1, "c": 0}
    assert told("guided_engine_up", model="code") == {"": 0}
    assert told("guided_requests", outcome="stop") == {"a": 2, "b": 5}
    assert told("guided_requests_queued") == {"ingress": 0}
    text = generate_latest(collector).decode()
    assert text.count("# TYPE guided_request_seconds histogram") == 1
    assert 'guided_request_seconds_bucket{le="+Inf",model="chat",replica="b"} 3.0' in text


@dataclass
class Several:
    """The models of an engine that has several."""

    known: tuple[ModelInfo, ...]

    def models(self) -> tuple[ModelInfo, ...]:
        return self.known

    def model(self, name: str = "") -> ModelInfo:
        return next(each for each in self.known if each.name == name)


SMALL = ModelInfo("small", 10, 10, adapters=("sql", "both"))
LARGE = ModelInfo("large", 10, 10, adapters=("both", "small"))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, SMALL),
        ("small", SMALL),
        ("large", LARGE),
        ("sql", SMALL),
        ("both", SMALL),
    ],
)
def test_a_model_is_found_by_its_name_or_its_adapter(asked: str | None, found: ModelInfo) -> None:
    engine: Any = Several((SMALL, LARGE))
    assert find_model(asked, engine, ServerConfig.model_construct(model="folder")) == found


def test_only_a_single_model_has_the_name_of_the_settings_too() -> None:
    config = ServerConfig.model_construct(model="folder")
    one: Any = Several((SMALL,))
    assert find_model("folder", one, config) == SMALL
    both: Any = Several((SMALL, LARGE))
    with pytest.raises(
        RefusedCallError, match="no model 'folder'; this server has 'small', 'large', 'sql', 'both'"
    ):
        find_model("folder", both, config)
