"""Mutants of valid grammars and patterns: compiled or refused, never a crash."""

from __future__ import annotations

import itertools
import random

import pytest

from guided.constraint.compiler import ConstraintCompiler
from tests.kit.effort import first_seed, times
from tests.kit.fuzz import FRONT_ENDS, compiles, mutants
from tests.kit.walks import BYTES

_MUTANTS = 60


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")  # of patterns, by Python
@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_a_mutant_compiles_or_is_refused(front_end: str) -> None:
    compiler = ConstraintCompiler(BYTES)
    texts = mutants(front_end, random.Random(first_seed()))
    for text in itertools.islice(texts, times(_MUTANTS)):
        compiles(front_end, text, compiler)
