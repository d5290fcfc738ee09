"""Several models behind one ingress: each request goes to the engines of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("ray", reason="make test-ray runs these")

import httpx2

from guided import Answer, Client, RawPrompt, Request, UnknownModelError
from guided.client import wait_until_serving
from guided_service.config import ServerConfig
from guided_service.ray.models import Models
from tests.ray.cluster import Serving, cluster, config_of

UNKNOWN = "model is 'other', but the server has 'small', 'large'; name one of these"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A cluster with two models, whose engines echo; the second has an adapter."""
    models = [
        {"name": "small", "model": "echo"},
        {"name": "large", "model": "echo", "adapters": {"sql": "sql"}},
    ]
    with cluster(tmp_path_factory.mktemp("ray"), nodes=1, cpus=4) as found:
        config = config_of(found.port, 1, "tests.ray.echo_app", {"models": models})
        config["applications"][0]["deployments"] = [
            {"name": "Engine-small", "num_replicas": 1},
            {"name": "Engine-large", "num_replicas": 2},
        ]
        found.deploy(config)
        wait_until_serving(found.address, 60)
        yield found


@pytest.fixture
def client(served: Serving) -> Iterator[Client]:
    with Client(served.address) as client:
        yield client


def test_they_are_listed_in_the_order_of_the_config(client: Client) -> None:
    assert [(each.name, each.adapters) for each in client.models()] == [
        ("small", ()),
        ("large", ("sql",)),
    ]
    assert client.model().name == "small"


@pytest.mark.parametrize(
    ("names", "asked", "answering"),
    [
        (("small", "large"), "", "small"),
        (("small", "large"), "large", "large"),
        (("small", "large"), "other", None),
        (("small", "large"), None, None),
        (("small",), None, "small"),
        (("",), "", None),  # its engines have not reported it yet
    ],
)
def test_traces_tell_the_model_that_answers(
    names: tuple[str, ...], asked: str | None, answering: str | None
) -> None:
    handles: dict[str, Any] = dict.fromkeys(names)
    assert Models(handles, ServerConfig()).model_name(asked) == answering


def test_requests_go_to_the_engines_of_their_model(client: Client) -> None:
    requests = [
        Request(RawPrompt(f"who {i}"), max_tokens=20, model=("small", "large", "")[i % 3])
        for i in range(30)
    ]
    answers = client.batch(requests)
    said = [each.text for each in answers if isinstance(each, Answer)]
    assert len(said) == 30
    engines = [set(said[kind::3]) for kind in range(3)]
    assert [len(each) for each in engines] == [1, 2, 1]
    assert engines[0] == engines[2], "the first model answers where none is named"
    assert not engines[0] & engines[1]


def test_an_adapter_is_one_of_its_model(client: Client) -> None:
    def said(model: str) -> str:
        prompt = RawPrompt("adapter")
        return client.generate(prompt, max_tokens=20, model=model, adapter="sql").text

    assert said("large") == "by sql"


def test_a_model_that_there_is_not_is_not_found(client: Client) -> None:
    with pytest.raises(UnknownModelError, match=UNKNOWN):
        client.generate(RawPrompt("hello"), max_tokens=5, model="other")
    with pytest.raises(UnknownModelError, match=UNKNOWN):
        client.grammars.check(int, model="other")
    asked = [Request(RawPrompt("hello"), max_tokens=5, model=name) for name in ("other", "large")]
    said = {each.index: each.outcome for each in client.as_completed(asked)}
    assert isinstance(said[0], UnknownModelError)
    assert isinstance(said[1], Answer)


def test_constraints_are_checked_by_the_engines_of_a_model(client: Client) -> None:
    kept = client.grammars.compile(int, model="large")
    assert [each.constraint_id for each in client.grammars.list()] == [kept.constraint_id]
    client.grammars.delete(kept.constraint_id)
    assert client.grammars.check(int) == client.grammars.check(int, model="large")


def test_over_http_the_field_model_names_them(served: Serving) -> None:
    def said(model: str, content: str = "who") -> dict[str, Any]:
        body = {"model": model, "prompt": content, "max_tokens": 20}
        answer = httpx2.post(f"{served.url}/v1/completions", json=body)
        return dict(answer.json())

    listed = httpx2.get(f"{served.url}/v1/models").json()["data"]
    assert [(each["id"], each.get("parent")) for each in listed] == [
        ("small", None),
        ("large", None),
        ("sql", "large"),
    ]
    small, large = (said(model)["choices"][0]["text"] for model in ("small", "large"))
    assert small != large, "other engines"
    assert said("sql", "adapter")["choices"][0]["text"] == "by sql"
    assert said("large")["model"] == "large"
    assert said("other")["error"]["message"] == (
        "there is no model 'other'; this server has 'small', 'large', 'sql'"
    )
    for model in ("small", "large", "sql"):
        body = {"model": model, "prompt": "hello"}
        tokens = httpx2.post(f"{served.url}/tokenize", json=body).json()
        assert tokens["count"] == 5
