"""A worker outlives what an engine does to its process."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from benchmarks.peers.adapter import Matcher
from benchmarks.peers.judging import Document, Job
from benchmarks.peers.worker import Worker
from tests.unit.peers.finite_engine import Bytes, FiniteEngine

GOOD = Job({"texts": ["[1]"]}, [Document([1], True)], limit=60.0)


class Deadly(FiniteEngine):
    """Dies or hangs while it compiles, where its schema says so."""

    def compile(self, schema: Any) -> Matcher:
        match schema.get("deed"):
            case "dies":
                os._exit(3)
            case "hangs":
                time.sleep(60)
        return super().compile(schema)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("deed", "status", "detail"),
    [
        ("dies", "crash", "status 3, compiling"),
        ("hangs", "timeout", "compiling (killed)"),
    ],
)
def test_a_schema_that_ends_its_process_does_not_harm_the_next(
    deed: str, status: str, detail: str
) -> None:
    engine = Deadly()
    engine.build(Bytes())
    worker = Worker(engine)
    try:
        assert worker.run(GOOD).verdicts == ["accepted"]
        found = worker.run(Job({"deed": deed}, [], limit=0.1))
        assert (found.status, found.detail, found.ttfm_us) == (status, detail, None)
        assert worker.run(GOOD).verdicts == ["accepted"]
    finally:
        worker.stop()
