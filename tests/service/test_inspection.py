"""The loop of the engine process works on constraints, and stops work that no call waits for."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TypeAlias

import zmq

from guided.spec import CheckedConstraint, Structure, TextReport
from guided.spec.findings import Automaton, Finding, MaskReport
from guided.wire_request import encode_constraint
from guided_service.engine_loop import run_engine
from guided_service.messages import (
    Cancel,
    EngineSettings,
    Failed,
    Found,
    Inspect,
    ModelChoice,
    Ready,
    Report,
    Stop,
    ToEngine,
    read_finding,
    read_from_engine,
    write,
)
from tests.service.echo_engine import EchoEngine
from tests.unit.engine.test_constraint_tasks import LONG, SHORT

Told: TypeAlias = dict[str, Finding | Failed]


def packed(constraint: Structure) -> bytes:
    return encode_constraint(constraint).SerializeToString()


def told(folder: Path, *messages: ToEngine, ends: set[str]) -> tuple[EchoEngine, Told]:
    """The engine, and its replies to messages by request, until all of ``ends`` have an end."""
    engine, all_sent = EchoEngine(), threading.Event()

    def load(_: ModelChoice) -> EchoEngine:
        assert all_sent.wait(20)
        return engine

    settings = EngineSettings(ModelChoice(), f"ipc://{folder / 'engine'}", os.getppid())
    loop = threading.Thread(target=run_engine, args=(settings, load))
    said: Told = {}
    asked = {each.request_id: each for each in messages if isinstance(each, Inspect)}
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.bind(settings.endpoint)
        loop.start()
        for message in messages:
            socket.send(write(message))
        all_sent.set()
        try:
            while not ends <= said.keys():
                assert socket.poll(60_000), f"only {said} was said"
                answer = read_from_engine(socket.recv())
                if isinstance(answer, Found):
                    what = asked[answer.request_id].what
                    said[answer.request_id] = read_finding[what](answer.finding)
                elif not isinstance(answer, Ready | Report):
                    assert isinstance(answer, Failed)
                    said[answer.request_id] = answer
        finally:
            socket.send(write(Stop()))
            loop.join()
    return engine, said


def test_each_kind_of_work_has_its_message(tmp_path: Path) -> None:
    _, said = told(
        tmp_path,
        Inspect("bad", "check", b"\x0a\xff"),
        Inspect("text", "read", packed(SHORT), "tr"),
        Inspect("late", "check", packed(LONG), deadline=time.monotonic() - 1),
        Inspect("check", "check", packed(SHORT)),
        Inspect("mask", "mask", packed(SHORT), tokens=tuple(b"tr")),
        Inspect("forbidden", "mask", packed(SHORT), tokens=tuple(b"no")),
        Inspect("drawing", "draw", packed(SHORT)),
        ends={"bad", "text", "late", "check", "mask", "forbidden", "drawing"},
    )
    late, text, check, mask, drawing = (
        said[name] for name in ("late", "text", "check", "mask", "drawing")
    )
    assert isinstance(late, Failed)
    assert late.error.code == "DEADLINE_EXCEEDED"
    assert isinstance(said["bad"], Failed)
    assert isinstance(text, TextReport)
    assert (text.offset, text.allowed) == (2, b"u")
    assert isinstance(check, CheckedConstraint)
    assert check.constraint_id == SHORT.digest()
    assert isinstance(mask, MaskReport)
    assert (mask.allowed, mask.forced) == (1, b"ue")
    assert isinstance(said["forbidden"], Failed)
    assert isinstance(drawing, Automaton)
    assert {arrow.label for arrow in drawing.arrows} == {"tru", "fals", "e"}


def test_work_that_is_cancelled_goes_no_further(tmp_path: Path) -> None:
    engine, said = told(
        tmp_path,
        Inspect("long", "check", packed(LONG)),
        Cancel("long"),
        Inspect("wanted", "check", packed(SHORT)),
        ends={"wanted"},
    )
    assert said.keys() == {"wanted"}
    assert not engine.constraint_tasks.has_work
