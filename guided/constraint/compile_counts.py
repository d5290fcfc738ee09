"""Counts what a compiler was asked for; safe to use from several threads."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from guided.errors import (
    ConstraintError,
    LimitExceededError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.stats import CompileOutcome, ConstraintStats

__all__ = ["CompileCounts"]


class CompileCounts:
    """Counts the look-ups and the compilations of one compiler."""

    def __init__(self) -> None:
        self._hits = 0
        self._refusal_hits = 0
        self._compilations: Counter[CompileOutcome] = Counter()
        self._seconds: defaultdict[CompileOutcome, float] = defaultdict(float)
        self._lock = threading.Lock()

    def count_hit(self) -> None:
        """Count a look-up that found a compiled constraint."""
        with self._lock:
            self._hits += 1

    def count_refusal_hit(self) -> None:
        """Count a look-up that found a refusal."""
        with self._lock:
            self._refusal_hits += 1

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Return a context for one compilation, which is counted by its outcome."""
        # Of this thread alone: between slices of the work, others have their turn.
        began = time.thread_time()
        outcome = CompileOutcome.COMPILED
        try:
            yield
        except BaseException as error:
            outcome = _outcome_of(error)
            raise
        finally:
            with self._lock:
                self._compilations[outcome] += 1
                self._seconds[outcome] += time.thread_time() - began

    def stats(self) -> ConstraintStats:
        """Return what was counted so far."""
        with self._lock:
            return ConstraintStats(
                hits=self._hits,
                refusal_hits=self._refusal_hits,
                compilations=dict(self._compilations),
                compile_seconds=dict(self._seconds),
            )


def _outcome_of(error: BaseException) -> CompileOutcome:
    match error:
        case LimitExceededError():
            return CompileOutcome.LIMIT
        case UnsupportedFeatureError():
            return CompileOutcome.UNSUPPORTED
        case UnsatisfiableError():
            return CompileOutcome.UNSATISFIABLE
        case ConstraintError():
            return CompileOutcome.INVALID
        case Exception():
            return CompileOutcome.FAILED
    # What ends work from outside is no ``Exception``, so that the work cannot catch it.
    return CompileOutcome.STOPPED
