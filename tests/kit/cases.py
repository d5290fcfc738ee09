"""Random schemas, compiled, for tests that loop over many."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import LimitExceededError, UnsatisfiableError
from guided.masks.compiled import CompiledConstraint
from guided.masks.vocabulary import Vocabulary
from guided.spec import JsonOptions, JsonSchema
from tests.kit.effort import first_seed, times
from tests.kit.hard_schemas import hard_schema
from tests.kit.walks import BYTES

__all__ = ["Seeded", "cases", "compiled", "trying"]


class Seeded(random.Random):
    """A source of randomness that remembers where it began, so that a failure can be repeated."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


def cases(count: int) -> Iterator[tuple[Any, Seeded]]:
    """``count`` random schemas, each with a source of randomness; in the long form many more."""
    first = first_seed()
    for seed in range(first, first + times(count)):
        rng = Seeded(seed)
        yield hard_schema(rng), rng


def compiled(
    schema: Any, writing: JsonOptions, vocabulary: Vocabulary = BYTES
) -> CompiledConstraint:
    """The compiled form of a schema."""
    return _compiler(vocabulary).compile(JsonSchema(json.dumps(schema), writing))


@contextmanager
def trying(schema: Any, rng: Seeded) -> Iterator[None]:
    """Adds schema and seed to a failure; skips a schema that cannot be compiled."""
    try:
        yield
    except (UnsatisfiableError, LimitExceededError):
        return
    except Exception as error:
        error.add_note(f"seed {rng.start}, schema: {json.dumps(schema)}")
        raise


@cache
def _compiler(vocabulary: Vocabulary) -> ConstraintCompiler:
    return ConstraintCompiler(vocabulary)
