"""The choice of an engine for a request, and the number of engines to run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

pytest.importorskip("ray", reason="make test-ray runs these")

from ray.serve._private.common import DeploymentHandleSource, DeploymentID, ReplicaID
from ray.serve.config import AutoscalingConfig

from guided.v1 import generation_pb2 as pb
from guided_service.ray.affinity import affinity_of
from guided_service.ray.engine import BEGUN, KV_USE
from guided_service.ray.messages import Asked
from guided_service.ray.router import AffinityRouter
from guided_service.ray.scaling import by_queue_and_cache

ENGINE = DeploymentID("Engine", "guided")
SCHEMA = pb.Constraint(json_schema="{}")


@dataclass(frozen=True)
class Replica:
    """The part of a replica that the router uses."""

    name: str
    routing_stats: dict[str, float] = field(default_factory=dict)

    @property
    def replica_id(self) -> ReplicaID:
        return ReplicaID(self.name, ENGINE)


@dataclass
class Pending:
    """The part of a request that the router uses."""

    args: tuple[Asked, ...]
    routing_context: Any = field(default_factory=lambda: Waiting())


@dataclass
class Waiting:
    should_backoff: bool = False


A, B, C = map(Replica, "abc")


def asking(prompt: str = "", constraint: pb.Constraint | None = None) -> Pending:
    message = pb.GenerateRequest(text=prompt, constraint=constraint)
    affinity = replace(affinity_of(message), constraint_bytes=2048)
    return Pending((Asked(affinity, b"", 0.0),))


def routed(*sent: tuple[Pending, Replica]) -> AffinityRouter:
    """A router that has sent these requests, which are running."""
    router = AffinityRouter(ENGINE, DeploymentHandleSource.REPLICA)
    router.initialize_state(slack=2)
    for request, replica in sent:
        router.on_send_request(replica.replica_id)
        result: Any = None
        router.on_request_routed(request, replica.replica_id, result)
    return router


def end(router: AffinityRouter, *engines: Replica) -> None:
    """Let a request end in each of these engines."""
    for each in engines:
        router.on_request_completed(each.replica_id, "")


async def first_asked(router: AffinityRouter, request: Pending, *replicas: Replica) -> set[str]:
    ranks = await router.choose_replicas(list(replicas), request)
    assert ranks[-1] == list(replicas), "at last, any is better than none"
    assert request.routing_context.should_backoff
    return {each.name for each in ranks[0]}


LONG = "x" * 3000


def test_an_engine_that_saw_what_begins_alike_is_asked_first() -> None:
    async def scenario() -> None:
        router = routed((asking(LONG), A), (asking("y" * 600), B), (asking("", SCHEMA), C))
        end(router, A, B, C)
        assert await first_asked(router, asking(LONG + "z"), A, B, C) == {"a"}
        assert await first_asked(router, asking("y" * 600 + "z"), A, B, C) == {"b"}
        assert await first_asked(router, asking("some", SCHEMA), A, B, C) == {"c"}
        # A constraint counts as 2,048 bytes here: more than these prompts, less than all of them.
        assert await first_asked(router, asking(LONG[:600], SCHEMA), A, B, C) == {"c"}
        assert await first_asked(router, asking(LONG, SCHEMA), A, B, C) == {"a", "c"}

    asyncio.run(scenario())


def test_another_salt_or_adapter_begins_otherwise() -> None:
    alike = {
        affinity_of(pb.GenerateRequest(text=LONG, cache_salt=salt, adapter=adapter)).beginnings[0]
        for salt, adapter in (("", ""), ("a", ""), ("", "a"))
    }
    assert len(alike) == 3


def test_load_goes_before_what_was_seen() -> None:
    async def scenario() -> None:
        router = routed(*[(asking(LONG), A)] * 3)
        assert await first_asked(router, asking(LONG), A, B) == {"b"}, "a is 3 ahead, 2 are allowed"
        end(router, A)
        assert await first_asked(router, asking(LONG), A, B) == {"a"}

    asyncio.run(scenario())


def test_those_that_have_no_engine_for_the_moment_are_left_out() -> None:
    async def asked(*avoided: str) -> list[set[str]]:
        request = asking(LONG)
        request.args = (replace(request.args[0], avoided=frozenset(avoided)),)
        router = routed((asking(LONG), A), (asking(LONG[:600]), B))
        ranks = await router.choose_replicas([A, B, C], request)
        return [{each.name for each in rank} for rank in ranks]

    async def scenario() -> None:
        assert await asked("a") == [{"b"}, {"b", "c"}, {"b", "c"}]
        assert await asked("a", "b") == [{"c"}, {"c"}, {"c"}]
        assert await asked("a", "b", "c") == await asked()

    asyncio.run(scenario())


def test_of_an_engine_that_has_ended_nothing_is_kept() -> None:
    async def scenario() -> None:
        router = routed((asking(LONG), A), (asking(LONG), B))
        router.update_replicas([B, C])  # as Ray reports the existing ones
        end(router, A, B)
        assert await first_asked(router, asking(LONG), A, B, C) == {"b"}

    asyncio.run(scenario())


def test_of_an_engine_that_was_made_again_nothing_is_kept() -> None:
    """Its replica continues, and has reported its first engine, or none before this request."""

    async def scenario() -> None:
        router = routed((asking(LONG), A), (asking(LONG[:600]), B))
        end(router, A, B)
        for begun, best in ((None, "a"), (1.0, "a"), (1.0, "a"), (2.0, "b")):
            a = Replica("a", {} if begun is None else {BEGUN: begun})
            router.update_replicas([a, Replica("b", {BEGUN: 1.0}), C])
            assert await first_asked(router, asking(LONG), A, B, C) == {best}

    asyncio.run(scenario())


def test_an_end_without_a_beginning_does_not_make_an_engine_idler() -> None:
    async def scenario() -> None:
        router = routed((asking(LONG), B))
        end(router, A, A, A, A)
        assert await first_asked(router, asking(LONG), A, B) == {"b"}

    asyncio.run(scenario())


def test_a_full_cache_counts_as_load() -> None:
    async def scenario() -> None:
        router = routed((asking(LONG), A))
        full = Replica("a", {KV_USE: 1.0})
        assert await first_asked(router, asking(LONG), full, B) == {"b"}
        half = Replica("a", {KV_USE: 0.5})
        assert await first_asked(router, asking(LONG), half, B) == {"a"}

    asyncio.run(scenario())


def test_what_is_new_goes_the_same_way_from_every_ingress() -> None:
    async def scenario() -> None:
        one = routed()
        other = routed()
        chosen = []
        for i in range(40):
            (engine,) = await first_asked(one, asking(str(i)), A, B, C)
            assert await first_asked(other, asking(str(i)), C, B, A) == {engine}
            chosen.append(engine)
        assert set(chosen) == {"a", "b", "c"}

    asyncio.run(scenario())


def test_what_is_new_goes_to_the_idler_of_the_two_that_it_names() -> None:
    async def scenario() -> None:
        request = asking("new")
        (first,) = await first_asked(routed(), request, A, B, C)
        busy = {each.name: each for each in (A, B, C)}[first]
        router = routed((asking("other"), busy))
        (second,) = await first_asked(router, request, A, B, C)
        assert second != first
        # The idle third one is not chosen, so that all ingresses choose alike.
        router.on_send_request(ReplicaID(second, ENGINE))
        assert await first_asked(router, request, A, B, C) == {first}

    asyncio.run(scenario())


def test_what_is_no_request_goes_anywhere() -> None:
    async def scenario() -> None:
        router = routed((asking(LONG), A))
        assert await first_asked(router, Pending(()), A, B) == {"a", "b"}
        assert await router.choose_replicas([], None) == [[], [], []]

    asyncio.run(scenario())


@dataclass
class Cluster:
    """The arguments of a scaling policy."""

    current_num_replicas: int
    total_num_requests: float
    aggregated_metrics: dict[str, dict[ReplicaID, float]]
    target_num_replicas: int = 1
    policy_state: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> AutoscalingConfig:
        return AutoscalingConfig(target_ongoing_requests=16)


@pytest.mark.parametrize(
    ("requests", "uses", "engines"),
    [
        (0, (0.0, 0.0), 0.0),
        (64, (0.1, 0.1), 4.0),  # for the requests
        (8, (0.9, 0.9), 2.25),  # for the caches, which are fuller than 0.8
        (16, (), 1.0),  # no engine has reported its cache yet
    ],
)
def test_engines_for_requests_and_caches(
    requests: int, uses: tuple[float, ...], engines: float
) -> None:
    told = {ReplicaID(str(i), ENGINE): use for i, use in enumerate(uses)}
    cluster: Any = Cluster(2, requests, {KV_USE: told} if told else {})
    assert by_queue_and_cache(cluster)[0] == pytest.approx(engines)
