"""What a process needs once is made before its first request."""

from __future__ import annotations

import json

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.spec import JsonSchema
from tests.kit.tiny_vocabulary import tiny_vocabulary


def test_after_a_rehearsal_formats_cost_little() -> None:
    ConstraintCompiler(tiny_vocabulary()).rehearse()
    compiler = ConstraintCompiler(tiny_vocabulary(), ConstraintLimits(compile_work=20_000))
    for name in ("idn-hostname", "email", "date-time", "regex"):
        schema = {"type": "string", "format": name}
        assert compiler.compile(JsonSchema(json.dumps(schema))).start().fits(1_000)
