"""An ingress's reports on its models while it watches their engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("ray", reason="make test-ray runs these")

from ray.exceptions import RayError

from guided.errors import ServiceUnavailableError
from guided.stats import ModelInfo
from guided_service.config import ServerConfig
from guided_service.messages import Ready
from guided_service.ray import engines
from guided_service.ray.messages import Absent, Reported, write_reply
from guided_service.ray.models import Models
from tests.service.test_ray_totals import ONE

PATIENCE = 1.5
"""Seconds of silence after which a model has no engines; the least that a server accepts."""

INFO = ModelInfo("weights", context_window=100, vocabulary_size=10)


def says_it_is_ready() -> bytes:
    return write_reply(Ready(INFO))


def has_ended() -> bytes:
    raise RayError("the actor died")


def says_nonsense() -> bytes:
    return b"\xc1"


@dataclass
class Handle:
    """The watched part of the engines of one model."""

    reply: Callable[[], bytes] = says_it_is_ready
    hangs: bool = False
    """Whether one of them gives no report."""
    reports: tuple[bytes | Exception, ...] = ()
    looks: int = 0
    ready: Any = field(init=False)

    def __post_init__(self) -> None:
        self.ready = self

    async def remote(self) -> bytes:
        self.looks += 1
        return self.reply()

    def broadcast(self, method: str) -> Any:
        assert method == "report"
        return self

    async def results_async(self, *, return_exceptions: bool) -> list[bytes | Exception]:
        assert return_exceptions
        if self.hangs:
            await asyncio.Event().wait()
        return [*self.reports]


@asynccontextmanager
async def watched(**handles: Handle) -> AsyncIterator[tuple[Models, list[bool]]]:
    """The models of these names, and the reports of their health."""
    models = Models(handles, ServerConfig(silence_seconds=PATIENCE))
    said: list[bool] = []

    async def note(is_serving: bool) -> None:
        said.append(is_serving)

    watching = asyncio.create_task(models.watch(note))
    try:
        yield models, said
        assert not watching.done(), "the ingress ends with it"
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


def names_of(models: Models) -> list[str]:
    return [each.name for each in models.models()]


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_LOOK_SECONDS", 0.01)


@pytest.mark.parametrize("fault", [has_ended, says_nonsense])
def test_a_model_whose_engines_are_down_is_listed_and_its_name_known(
    fault: Callable[[], bytes],
) -> None:
    async def scenario() -> None:
        first, second = Handle(), Handle()
        async with watched(first=first, second=second) as (models, said):
            await until(lambda: True in said)
            first.reply = fault
            await until(lambda: not models._engines["first"].is_serving)
            assert names_of(models) == ["first", "second"]
            with pytest.raises(ServiceUnavailableError, match="no engine is ready"):
                models.model("first")
            assert models.model("second").name == "second"
            second.reply = fault
            await until(lambda: not said[-1])
            with pytest.raises(ServiceUnavailableError, match="no engine is ready"):
                models.models()
            first.reply = says_it_is_ready
            await until(lambda: said[-1])
            assert models.model("first").name == "first"

    asyncio.run(scenario())


def test_none_are_listed_before_each_model_had_engines() -> None:
    async def scenario() -> None:
        late = Handle(has_ended)
        async with watched(first=Handle(), late=late) as (models, said):
            await until(lambda: models._engines["first"].is_serving)
            with pytest.raises(ServiceUnavailableError, match="no engine was ready yet"):
                models.models()
            late.reply = says_it_is_ready
            await until(lambda: True in said)
            assert names_of(models) == ["first", "late"]

    asyncio.run(scenario())


def test_a_look_that_fails_keeps_nobody_from_looking_again() -> None:
    async def scenario() -> None:
        fails, other = Handle(says_nonsense), Handle()
        async with watched(fails=fails, other=other):
            await until(lambda: fails.looks >= 3)
            looks = other.looks
            await until(lambda: other.looks >= looks + 3)

    asyncio.run(scenario())


def test_one_that_hangs_says_nothing_of_the_others() -> None:
    async def scenario() -> None:
        handle = Handle(hangs=True)
        async with watched(model=handle) as (_, said):
            await until(lambda: handle.looks >= 4)  # each but the last took half a second
            assert set(said[said.index(True) :]) == {True}

    asyncio.run(scenario())


def test_reports_are_those_of_the_replicas_while_a_model_has_engines() -> None:
    async def scenario() -> None:
        handle = Handle(
            reports=(
                write_reply(Reported("a", ONE)),
                write_reply(Absent("b")),
                RayError("the actor died"),
            )
        )
        async with watched(model=handle) as (models, said):
            await until(lambda: any(models.reports().values()))
            assert models.reports() == {"model": {"a": ONE, "b": None}}
            assert models.stats() == ONE
            handle.reply = has_ended
            await until(lambda: not said[-1])
            assert models.reports() == {"model": {}}

    asyncio.run(scenario())


def test_reports_of_a_single_model_have_the_name_of_its_own() -> None:
    async def scenario() -> None:
        async with watched(**{"": Handle(reports=(write_reply(Reported("a", ONE)),))}) as (
            models,
            _,
        ):
            await until(lambda: any(models.reports().values()))
            assert models.reports() == {"weights": {"a": ONE}}

    asyncio.run(scenario())
