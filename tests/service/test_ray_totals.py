"""The sums of the reports of several engines."""

from __future__ import annotations

from dataclasses import replace

from guided.spec import FinishReason, Usage
from guided.spec.constraint_kind import ConstraintKind
from guided.stats import (
    CacheStats,
    CompileOutcome,
    ConstraintStats,
    EngineStats,
    Histogram,
    Phase,
)
from guided_service.ray.totals import total_of

TIMES = Histogram((1.0,), (2, 1), 3.5)
ONE = EngineStats(
    seconds=10.0,
    running=1,
    waiting=2,
    usage=Usage(prompt_tokens=5, sampled_tokens=7),
    model_calls=3,
    cache=CacheStats(16, free=4, held=2, cached=1),
    phases=dict.fromkeys(Phase, 0.5),
    compiling=TIMES,
    queueing=TIMES,
    first_token=TIMES,
    inter_token=TIMES,
    answering=TIMES,
    answered={FinishReason.STOP: 2},
    failed=1,
    submitted={ConstraintKind.NONE: 3},
    constraints=ConstraintStats(
        hits=3,
        refusal_hits=1,
        compilations={CompileOutcome.COMPILED: 2},
        compile_seconds={CompileOutcome.COMPILED: 0.25},
        kept=2,
        kept_bytes=100,
        kept_refusals=1,
        mask_hits=5,
        masks=TIMES,
        mask_bytes=50,
    ),
)


def test_of_one_engine_nothing_changes() -> None:
    assert total_of([]) is None
    assert total_of([ONE]) == ONE


def test_counts_add_up_and_the_oldest_tells_the_age() -> None:
    other = replace(ONE, seconds=4.0, answered={FinishReason.STOP: 1, FinishReason.LENGTH: 5})
    total = total_of([other, ONE])
    assert total is not None
    assert total.seconds == 10.0
    assert (total.running, total.waiting, total.model_calls, total.failed) == (2, 4, 6, 2)
    assert total.usage == Usage(prompt_tokens=10, sampled_tokens=14)
    assert total.cache == CacheStats(16, free=8, held=4, cached=2)
    assert total.answered == {FinishReason.STOP: 3, FinishReason.LENGTH: 5}
    assert total.submitted == {ConstraintKind.NONE: 6}
    assert total.phases == dict.fromkeys(Phase, 1.0)
    assert total.answering == Histogram((1.0,), (4, 2), 7.0)


def test_compilations_add_up_by_their_outcome() -> None:
    refused = ConstraintStats(
        compilations={CompileOutcome.LIMIT: 1, CompileOutcome.COMPILED: 1},
        compile_seconds={CompileOutcome.LIMIT: 3.0, CompileOutcome.COMPILED: 0.5},
        masks=TIMES,
    )
    total = total_of([ONE, replace(ONE, constraints=refused), ONE])
    assert total is not None
    assert total.constraints == ConstraintStats(
        hits=6,
        refusal_hits=2,
        compilations={CompileOutcome.COMPILED: 5, CompileOutcome.LIMIT: 1},
        compile_seconds={CompileOutcome.COMPILED: 1.0, CompileOutcome.LIMIT: 3.0},
        kept=4,
        kept_bytes=200,
        kept_refusals=2,
        mask_hits=10,
        masks=Histogram((1.0,), (6, 3), 10.5),
        mask_bytes=100,
    )
