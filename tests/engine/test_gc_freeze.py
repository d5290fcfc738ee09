"""Engines that nothing refers to are freed completely, though their parts are frozen."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from guided.engine import load_engine
from guided.engine.engine import Engine
from guided.engine.gc_freeze import collect_garbage, freeze_heap
from tests.engine.test_load_drafters import REQUEST, save
from tests.engine.tiny_models import answers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(tmp_path_factory.mktemp("tiny"))


def load(folder: str) -> Engine:
    return load_engine(folder, dtype="float32", device="cpu", threads=1, cache_tokens=256)


def test_an_engine_goes_with_the_last_who_has_it(folder: str) -> None:
    """Freed without a collection, which would take long."""
    engine = load(folder)
    answers(engine, {"r": REQUEST})
    runner = ref(engine._model.runner)
    gc.disable()
    try:
        del engine
        assert runner() is None
    finally:
        gc.enable()


def test_an_engine_in_a_circle_goes_when_it_is_freed_or_another_is_loaded(folder: str) -> None:
    engine = load(folder)
    first = ref(engine._model.runner)
    vars(engine._model.runner)["circle"] = engine
    del engine
    gc.collect()
    assert first() is not None
    engine = load(folder)
    assert first() is None
    second = ref(engine._model.runner)
    vars(engine._model.runner)["circle"] = engine
    del engine
    collect_garbage()
    assert second() is None


def test_what_is_frozen_is_not_looked_through_again(folder: str) -> None:
    engine = load(folder)
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    del engine
    collect_garbage()
    assert gc.get_freeze_count() > frozen / 2


class Circle:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_loading_leaves_goes_though_the_collector_is_off(folder: str) -> None:
    gc.disable()
    try:
        left = ref(Circle())
        load(folder)
        assert left() is None
    finally:
        gc.enable()


def test_a_fork_does_not_look_through_what_it_shares(folder: str) -> None:
    """It freezes an engine whose parts were frozen before it was forked."""
    engine = load(folder)
    left = ref(Circle())
    freeze_heap(engine._model.runner)
    assert left() is not None
    collect_garbage()
