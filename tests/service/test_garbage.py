"""Old garbage is collected when no request waits, or when there is much of it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from guided.client import Client, RawPrompt
from guided_service import garbage as module
from guided_service.garbage import Garbage


class Cycle:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_threads_of_an_engine_allot_together(shared_echo: Client) -> None:
    """They share arenas, so that memory freed by one thread is available to the next."""
    assert shared_echo.generate(RawPrompt("arenas"), max_tokens=1).text in ("1", "None")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The memory that the process appears to hold, in bytes; restores thresholds afterwards."""
    held = [2**30]
    monkeypatch.setattr(module, "_resident", lambda: held[0])
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "_BUSY_LOOK_SECONDS", 0.0)
    before = gc.get_threshold()
    yield held
    gc.set_threshold(*before)


def old_cycle() -> weakref.ref[Cycle]:
    """Garbage that collections of young objects have passed over."""
    cycle = Cycle()
    for generation in (0, 1):
        gc.collect(generation)
    return weakref.ref(cycle)


@pytest.mark.parametrize(
    ("is_idle", "grown", "is_collected"),
    [
        (True, 0, False),
        (True, 2**26, True),
        (False, 2**26, False),
        (False, 2**30, True),
    ],
)
def test_old_garbage_is_collected_at_good_moments(
    memory: list[int],
    monkeypatch: pytest.MonkeyPatch,
    is_idle: bool,
    grown: int,
    is_collected: bool,
) -> None:
    given_back: list[None] = []
    monkeypatch.setattr(module, "give_back_memory", lambda: given_back.append(None))
    garbage = Garbage()
    cycle = old_cycle()
    memory[0] += grown
    garbage.collect(is_idle=is_idle)
    assert (cycle() is None) is is_collected
    # The system has to provide it again, which takes long.
    assert bool(given_back) is is_collected


def test_memory_that_is_free_is_given_back_before_anything_is_collected(
    memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While there is work, a collection would delay it for much longer."""
    garbage = Garbage()
    cycle = old_cycle()
    before, memory[0] = memory[0], memory[0] + 2**30
    monkeypatch.setattr(module, "give_back_memory", lambda: memory.__setitem__(0, before))
    garbage.collect(is_idle=False)
    assert (cycle() is None, memory[0]) == (False, before)


def test_memory_that_was_free_does_not_raise_the_bound(
    memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else memory rises with each collection for as long as the engine is never idle."""
    garbage = Garbage()
    live = memory[0] + 2**30
    monkeypatch.setattr(module, "give_back_memory", lambda: memory.__setitem__(0, live))
    memory[0] = 2**32
    garbage.collect(is_idle=False)
    cycle = old_cycle()
    monkeypatch.setattr(module, "give_back_memory", lambda: None)
    memory[0] = live + 2**29 + 1
    garbage.collect(is_idle=False)
    assert cycle() is None


def test_old_garbage_is_not_collected_by_the_way(memory: list[int]) -> None:
    assert memory
    Garbage()
    cycle = old_cycle()
    kept: list[list[int]] = [[] for _ in range(200_000)]
    assert len(kept) == 200_000
    assert cycle() is not None


def test_a_low_after_a_peak_is_where_growth_is_counted_from(
    memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "give_back_memory", lambda: None)
    memory[0] = 2**32
    garbage = Garbage()
    memory[0] = 2**30
    garbage.collect(is_idle=False)
    cycle = old_cycle()
    memory[0] += 2**29 + 1
    garbage.collect(is_idle=False)
    assert cycle() is None
