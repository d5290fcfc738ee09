"""Two thousand real schemas with documents: MaskBench's open part.

Its 11 MB (1.5 MB packed) come from many authors under as many licences, so they are not in the
repository: ``GUIDED_MASKBENCH`` names the file, one JSON object a line with ``name``, ``schema``
and ``tests`` (``data`` and whether it is ``valid``), packed with gzip.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import GuidedError, LimitExceededError, TokenRejectedError
from guided.masks.matcher import Matcher
from guided.spec import JsonSchema, TokenId
from tests.kit.effort import is_long
from tests.kit.walks import BYTES, END, allows, random_walk
from tests.kit.writing import ANY_WAY_WITH_FORMATS

_PLACE: Final = os.environ.get("GUIDED_MASKBENCH")
_SHARES: Final = 40
_MASK_EVERY: Final = 64
"""Bytes between two masks that are made."""

LIMITED: Final = frozenset({"JsonSchemaStore---aerleon-definitions.schema"})
"""Schemas with documents that take more work than a step may: a pattern with too many cases."""

pytestmark = [
    pytest.mark.skipif(not is_long(), reason="real schemas are for make test-long"),
    pytest.mark.skipif(_PLACE is None, reason="GUIDED_MASKBENCH does not name MaskBench's file"),
]


@cache
def _lines() -> tuple[bytes, ...]:
    assert _PLACE is not None
    return tuple(gzip.decompress(Path(_PLACE).read_bytes()).splitlines())


@pytest.mark.parametrize("share", range(_SHARES))
def test_documents_are_judged_as_the_benchmark_does(share: int) -> None:
    wrong: list[str] = []
    for line in _lines()[share::_SHARES]:
        entry = json.loads(line)
        name = entry["name"]
        compiler = ConstraintCompiler(BYTES)
        constraint = JsonSchema(json.dumps(entry["schema"]), ANY_WAY_WITH_FORMATS)
        try:
            start = compiler.compile(constraint).start()
        except GuidedError as error:
            wrong.append(f"{name}: {error}")
            continue
        for number, test in enumerate(entry["tests"]):
            found = _judged(start, test["data"])
            if found is None:
                if name not in LIMITED:
                    wrong.append(f"{name} {number}: a limit")
            elif found != test["valid"]:
                wrong.append(f"{name} {number}: {found}")
    assert not wrong, "\n".join(wrong)


def _judged(start: Matcher, document: Any) -> bool | None:
    """Whether a document is accepted; ``None`` if a limit prevents that."""
    matcher = start
    try:
        for place, byte in enumerate(json.dumps(document, ensure_ascii=False).encode()):
            token = TokenId(byte + 1)
            if place % _MASK_EVERY == 0 and not allows(matcher.mask(), token):
                return False
            matcher = matcher.advance(token)
        return allows(matcher.mask(), END)
    except TokenRejectedError:
        return False
    except LimitExceededError:
        return None


@pytest.mark.parametrize("share", range(_SHARES))
def test_random_answers_come_to_their_end(share: int) -> None:
    """With the default options; answers at a limit are closed by their shortest end, and listed."""
    limited: list[str] = []
    for line in _lines()[share::_SHARES]:
        entry = json.loads(line)
        try:
            start = (
                ConstraintCompiler(BYTES).compile(JsonSchema(json.dumps(entry["schema"]))).start()
            )
        except GuidedError:
            continue
        try:
            random_walk(start, random.Random(entry["name"]), 200)
        except LimitExceededError:
            limited.append(entry["name"])
    assert set(limited) <= LIMITED
