"""A type accepts every text that the masks of its schema allow."""

from __future__ import annotations

import random
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler
from guided.response_types import adapter_of, schema_of_adapter
from guided.spec import JsonOptions, JsonSchema, Spelling
from tests.kit.walks import BYTES, random_walk
from tests.unit.response_types.test_round_trip import TYPES

_COMPILER = ConstraintCompiler(BYTES)
_OPTIONS = (
    JsonOptions(),
    JsonOptions(whitespace="free", key_order="any"),
    JsonOptions(spelling="any", max_number_digits=None),
)


@pytest.mark.parametrize("model", TYPES.values(), ids=TYPES.keys())
def test_every_text_of_the_masks_is_accepted(model: Any) -> None:
    adapter = adapter_of(model)
    schemas = {each: schema_of_adapter(adapter, each) for each in Spelling}
    for options in _OPTIONS:
        start = _COMPILER.start(JsonSchema(schemas[options.spelling], options))
        for seed in range(3):
            walk = random_walk(start, random.Random(seed), steps=10 + 50 * seed)
            adapter.validate_json(bytes(token - 1 for token in walk.tokens))
