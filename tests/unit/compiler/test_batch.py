"""Masks of many positions at once: each row is as a single matcher would fill it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from guided.compiler import Compiler, Matcher, fill_bitmasks, fill_tree
from guided.compiler.bitmask import Bitmask
from guided.errors import RequestError
from guided.masks.mask import tokens_of
from tests.kit.walks import END, PIECES

_COMPILER = Compiler(PIECES)
_SCHEMAS = (
    {"type": "array", "items": {"type": "number"}},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}},
    {"enum": ["red", "green", 10]},
)
_WORDS = len(_COMPILER.bitmask(1)[0])


def _allowed(row: np.ndarray) -> list[int]:
    return [*map(int, tokens_of(np.ascontiguousarray(row)))]


def _own_row(matcher: Matcher) -> list[int]:
    bitmask = _COMPILER.bitmask(1)
    matcher.fill_bitmask(bitmask)
    return _allowed(bitmask[0])


def _random_matcher(seed: int) -> Matcher:
    """Return a matcher some random tokens into an answer, or after its end."""
    draw = random.Random(seed)
    matcher = _COMPILER.compile(_SCHEMAS[seed % len(_SCHEMAS)]).matcher()
    for _ in range(draw.randrange(12)):
        if not matcher.is_terminated:
            matcher.accept([draw.choice(_own_row(matcher))])
    return matcher


def test_each_row_is_that_of_its_matcher() -> None:
    matchers = [_random_matcher(seed) for seed in range(60)]
    assert any(matcher.is_terminated for matcher in matchers)
    rows = random.Random(0).sample(range(70), len(matchers))
    bitmask = np.full((70, _WORDS + 2), 7, dtype=np.int32)
    fill_bitmasks(matchers, bitmask, rows)
    for matcher, row in zip(matchers, rows, strict=True):
        assert _allowed(bitmask[row]) == _own_row(matcher)
    others = sorted({*range(70)} - {*rows})
    assert (bitmask[others] == 7).all(), "a row of no matcher was written to"


def test_without_rows_the_first_ones_are_filled_and_nothing_for_nobody() -> None:
    matchers = [_random_matcher(seed) for seed in range(5)]
    bitmask = _COMPILER.bitmask(6)
    fill_bitmasks(matchers, bitmask)
    assert [_allowed(row) for row in bitmask] == [*map(_own_row, matchers), []]
    fill_bitmasks([], bitmask[:0])


@pytest.mark.parametrize("kind", ["torch", "every second row", "part of wider rows"])
def test_memory_of_any_layout_with_whole_rows_is_written_to(kind: str) -> None:
    matchers = [_random_matcher(seed) for seed in range(8)]
    memory = np.full((16, 40), 7, dtype=np.int32)
    whole = torch.from_numpy(memory)
    layouts: dict[str, Bitmask] = {
        "torch": whole[:8],
        "every second row": memory[::2],
        "part of wider rows": memory[:8, 3 : 3 + _WORDS],
    }
    bitmask = layouts[kind]
    fill_bitmasks(matchers, bitmask)
    seen = np.asarray(bitmask)
    assert [_allowed(row) for row in seen] == [*map(_own_row, matchers)]
    matchers[0].fill_bitmask(bitmask, 7)
    assert _allowed(seen[7]) == _own_row(matchers[0])
    assert np.count_nonzero(memory != 7) <= seen.size, "what is no part of it was written to"


class _OnAnotherDevice:
    def __array__(self) -> np.ndarray:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


class _Copied:
    def __array__(self, *_: object, **__: object) -> np.ndarray:
        return _COMPILER.bitmask(2)


def _read_only() -> np.ndarray:
    bitmask = _COMPILER.bitmask(2)
    bitmask.flags.writeable = False
    return bitmask


_BITMASK_HINT = "Compiler.bitmask(rows) makes one, or pass a tensor of torch.int32 on the CPU"


@pytest.mark.parametrize(
    ("bitmask", "message"),
    [
        (
            np.zeros((2, 40), np.int64),
            f"the bitmask is int64 of 2 dimensions, not int32 [rows, words]; {_BITMASK_HINT}",
        ),
        (
            np.zeros(40, np.int32),
            f"the bitmask is int32 of 1 dimensions, not int32 [rows, words]; {_BITMASK_HINT}",
        ),
        (
            np.zeros((40, 2), np.int32).T,
            "the words of a row of the bitmask are not contiguous in memory; pass it as it was "
            "made, not transposed and without steps along its rows",
        ),
        (_read_only(), f"the bitmask is read-only; {_BITMASK_HINT}"),
        (
            [[0] * 40] * 2,
            f"a list shares no memory with numpy, so no mask can be written to it; {_BITMASK_HINT}",
        ),
        (
            _Copied(),
            f"a _Copied gives numpy a copy, which would be filled in its place; {_BITMASK_HINT}",
        ),
        (
            _OnAnotherDevice(),
            "the bitmask shares no memory with numpy: can't convert cuda:0 device type tensor to "
            "numpy; fill one in the memory of the processor, then move it to the device",
        ),
        (
            np.zeros((2, _WORDS - 1), np.int32),
            f"the bitmask has {_WORDS - 1} words a row, and the vocabulary takes {_WORDS}; "
            "Compiler.bitmask(rows) makes one that is wide enough",
        ),
        (
            np.zeros((1, _WORDS), np.int32),
            "row 1 of a bitmask of 1 rows; rows count from 0",
        ),
    ],
)
def test_memory_that_cannot_be_written_to_is_refused(bitmask: np.ndarray, message: str) -> None:
    matchers = [_random_matcher(0), _random_matcher(1)]
    with pytest.raises(RequestError) as caught:
        fill_bitmasks(matchers, bitmask)
    assert str(caught.value) == message
    with pytest.raises(RequestError) as caught:
        matchers[0].fill_bitmask(bitmask, 1)
    assert str(caught.value) == message


def test_rows_that_are_not_there_are_refused() -> None:
    matchers = [_random_matcher(0), _random_matcher(1)]
    with pytest.raises(RequestError, match="row -1 of a bitmask of 2 rows"):
        fill_bitmasks(matchers, _COMPILER.bitmask(2), [0, -1])
    with pytest.raises(RequestError, match="1 rows are given for 2 matchers"):
        fill_bitmasks(matchers, _COMPILER.bitmask(2), [0])


_WHOLE = "give whole numbers, counted from 0"
_FRACTION = "'float' object cannot be interpreted as an integer"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0.7, 1], f"rows: {_FRACTION}; {_WHOLE}"),
        ([[0], 1], f"rows: 'list' object cannot be interpreted as an integer; {_WHOLE}"),
        ([0, True], f"rows: a truth value is no number; {_WHOLE}"),
        (
            np.array([0.0, 1.0]),
            f"rows: 'numpy.float64' object cannot be interpreted as an integer; {_WHOLE}",
        ),
        (7, f"rows: 'int' object is not iterable; {_WHOLE}"),
        ([0, 2**70], f"row {2**70} of a bitmask of 2 rows; rows count from 0"),
    ],
)
def test_rows_that_are_no_numbers_are_refused(rows: list[int], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        fill_bitmasks([_random_matcher(0), _random_matcher(1)], _COMPILER.bitmask(2), rows)
    assert str(caught.value) == message


def test_rows_come_in_arrays_and_tensors_too() -> None:
    matchers = [_random_matcher(0), _random_matcher(1)]
    expected = [*map(_own_row, matchers)][::-1]
    for rows in (np.array([1, 0], np.uint8), torch.tensor([1, 0]), (np.int32(1), 0)):
        bitmask = _COMPILER.bitmask(2)
        fill_bitmasks(matchers, bitmask, rows)  # type: ignore[arg-type]
        assert [*map(_allowed, bitmask)] == expected


@pytest.mark.parametrize(("row", "wrong"), [(1.0, _FRACTION), (True, "a truth value is no number")])
def test_a_row_that_is_no_number_is_refused(row: int, wrong: str) -> None:
    bitmask = _COMPILER.bitmask(2)
    for fill in (
        lambda: _random_matcher(0).fill_bitmask(bitmask, row),
        lambda: fill_tree(_random_matcher(0), [-1], [0], bitmask, row),
    ):
        with pytest.raises(RequestError) as caught:
            fill()
        assert str(caught.value) == f"row: {wrong}; {_WHOLE}"
    assert not bitmask.any()


def _random_tree(draw: random.Random, matcher: Matcher) -> tuple[list[int], list[int]]:
    """Return parents and tokens of a tree, most of whose tokens are allowed."""
    forks: list[Matcher | None] = [matcher]
    parents, tokens = [-1], [draw.randrange(len(PIECES))]
    for _ in range(31):
        parent = draw.randrange(len(parents))
        above = forks[parent]
        usual = [] if above is None else _own_row(above)
        token = draw.choice(usual) if usual and draw.random() < 0.8 else draw.randrange(-1, 400)
        parents.append(parent)
        tokens.append(token)
        fork = None if above is None else above.fork()
        forks.append(fork if fork is not None and fork.accept([token]) else None)
    return parents, tokens


@pytest.mark.parametrize("seed", range(6))
def test_a_row_of_a_tree_is_that_of_a_matcher_moved_along_its_path(seed: int) -> None:
    draw, matcher = random.Random(seed), _random_matcher(seed)
    before = _own_row(matcher)
    parents, tokens = _random_tree(draw, matcher)
    bitmask = _COMPILER.bitmask(34)
    allowed = fill_tree(matcher, parents, tokens, bitmask, 2)
    assert _own_row(matcher) == before, "the matcher was moved"
    assert not bitmask[:2].any()
    for node in range(len(parents)):
        path = _path_to(parents, tokens, node)
        moved = matcher.fork()
        assert allowed[node] == moved.accept(path) == (matcher.validate(path) == len(path))
        expected = _own_row(moved) if allowed[node] else [END]
        assert _allowed(bitmask[2 + node]) == expected


def _path_to(parents: Sequence[int], tokens: Sequence[int], node: int) -> list[int]:
    path: list[int] = []
    while node:
        path.append(tokens[node])
        node = parents[node]
    return path[::-1]


@pytest.mark.parametrize(
    ("parents", "tokens", "message"),
    [
        ([], [], "the tree has 0 parents and 0 tokens; give one of each for every node, the root "),
        ([-1, 0], [5], "the tree has 2 parents and 1 tokens; give one"),
        ([0, 0], [5, 5], "the first node has the parent 0; it is the root: -1"),
        ([-1, -1], [5, 5], "node 1 has the parent -1; list each node after its parent, and one "),
        ([-1, 0.0], [5, 5], f"parents: {_FRACTION}"),
        ([-1, 0], [5, True], "tokens: a truth value is no number"),
        ([-1, 2, 0], [5, 5, 5], "node 1 has the parent 2; list"),
    ],
)
def test_what_is_no_tree_is_refused(parents: list[int], tokens: list[int], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        fill_tree(_random_matcher(0), parents, tokens, _COMPILER.bitmask(3))
    assert str(caught.value).startswith(message)
