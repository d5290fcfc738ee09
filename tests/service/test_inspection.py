"""The loop of the engine process works on constraints, and stops where nobody waits."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import zmq

from guided.spec import Structure
from guided.wire_request import encode_constraint
from guided_service.engine_loop import run_engine
from guided_service.messages import (
    Cancel,
    Checked,
    EngineSettings,
    Failed,
    FromEngine,
    Inspect,
    ModelChoice,
    Ready,
    Report,
    Stop,
    TextRead,
    ToEngine,
    read_from_engine,
    write,
)
from tests.service.echo_engine import EchoEngine
from tests.unit.engine.test_workbench import LONG, SHORT


def packed(constraint: Structure) -> bytes:
    return encode_constraint(constraint).SerializeToString()


def told(folder: Path, *messages: ToEngine, last: str) -> tuple[EchoEngine, list[FromEngine]]:
    """The engine, and what it says to messages until it has said something of ``last``."""
    engine, all_sent = EchoEngine(), threading.Event()

    def load(_: ModelChoice) -> EchoEngine:
        assert all_sent.wait(20)
        return engine

    settings = EngineSettings(ModelChoice(), f"ipc://{folder / 'engine'}", os.getppid())
    loop = threading.Thread(target=run_engine, args=(settings, load))
    said: list[FromEngine] = []
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.bind(settings.endpoint)
        loop.start()
        for message in messages:
            socket.send(write(message))
        all_sent.set()
        try:
            while not any(getattr(each, "request_id", "") == last for each in said):
                assert socket.poll(60_000), f"only {said} was said"
                answer = read_from_engine(socket.recv())
                if not isinstance(answer, Ready | Report):
                    said.append(answer)
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
        last="check",
    )
    late, bad, text, check = said
    assert isinstance(late, Failed)
    assert late.error.code == "DEADLINE_EXCEEDED"
    assert isinstance(bad, Failed)
    assert isinstance(text, TextRead)
    assert (text.finding.offset, text.finding.allowed) == (2, b"u")
    assert isinstance(check, Checked)
    assert check.finding.constraint_id == SHORT.digest()


def test_work_that_is_cancelled_goes_no_further(tmp_path: Path) -> None:
    engine, said = told(
        tmp_path,
        Inspect("long", "check", packed(LONG)),
        Cancel("long"),
        Inspect("wanted", "check", packed(SHORT)),
        last="wanted",
    )
    assert [getattr(each, "request_id", "") for each in said] == ["wanted"]
    assert not engine.workbench.has_work
