"""Automata for the scalars of JSON, shared by all schemas that ask for the same ones."""

from __future__ import annotations

import functools
import json
import operator
import threading
from collections.abc import Collection, Hashable

import numpy as np
from cachetools import LRUCache, cached

from guided.automata.byte_dfa import (
    ByteDfa,
    byte_dfa_from_dfa,
    byte_dfa_from_literals,
)
from guided.automata.dfa import DEAD, Dfa, dfa_from_regular, length_dfa, product
from guided.automata.regular import ANYTHING, Alternate, literal
from guided.automata.utf8 import json_string_sequences, utf8_sequences
from guided.grammar.json_grammar import NumberShape, StringShape
from guided.grammar.numbers import number_dfa, number_text

__all__ = ["json_key", "number_block", "string_block", "string_content"]

MAX_CACHED_BYTES = 64 * 2**20
_blocks: LRUCache[Hashable, ByteDfa] = LRUCache(MAX_CACHED_BYTES, getsizeof=lambda b: b.nbytes)
_lock = threading.Lock()


def json_key(text: str) -> bytes:
    """The canonical spelling of a string in JSON, quotes included."""
    return json.dumps(text, ensure_ascii=False).encode()


@cached(_blocks, lock=_lock)
def string_block(shapes: tuple[StringShape, ...], missing: frozenset[int]) -> ByteDfa:
    """JSON strings, quotes included, that one of the shapes allows.

    Kept for other schemas. Raises LimitExceededError for an automaton that grows too large.
    """
    if all(shape.choices is not None for shape in shapes):
        choices = {text for shape in shapes for text in _allowed_choices(shape)}
        return byte_dfa_from_literals(((json_key(text), 0) for text in sorted(choices)), missing)
    dfa = functools.reduce(lambda a, b: product(a, b, operator.or_), map(_content_dfa, shapes))
    return _quoted(byte_dfa_from_dfa(dfa, json_string_sequences, missing))


@cached(_blocks, lock=_lock)
def number_block(shapes: tuple[NumberShape, ...], missing: frozenset[int]) -> ByteDfa:
    """JSON numbers that one of the shapes allows.

    Kept for other schemas. Raises LimitExceededError for an automaton that grows too large.
    """
    if all(shape.choices is not None for shape in shapes):
        texts = {number_text(value) for shape in shapes for value in shape.choices or ()}
        return byte_dfa_from_literals(((text.encode(), 0) for text in sorted(texts)), missing)
    dfa = functools.reduce(lambda a, b: product(a, b, operator.or_), map(_number_dfa, shapes))
    return byte_dfa_from_dfa(dfa, utf8_sequences, missing)


@functools.lru_cache(maxsize=8)
def string_content(missing: frozenset[int]) -> ByteDfa:
    """The inside of any JSON string."""
    return byte_dfa_from_dfa(dfa_from_regular(ANYTHING), json_string_sequences, missing)


def _patterns_dfa(shape: StringShape) -> Dfa:
    parts = [dfa_from_regular(pattern, search=True) for pattern in shape.patterns]
    if shape.min_length or shape.max_length is not None or not parts:
        parts.append(length_dfa(shape.min_length, shape.max_length))
    return functools.reduce(lambda a, b: product(a, b, operator.and_), parts)


def _content_dfa(shape: StringShape) -> Dfa:
    if shape.choices is None:
        return _patterns_dfa(shape)
    return dfa_from_regular(Alternate(tuple(literal(text) for text in _allowed_choices(shape))))


def _allowed_choices(shape: StringShape) -> Collection[str]:
    assert shape.choices is not None
    if not shape.patterns and not shape.min_length and shape.max_length is None:
        return shape.choices
    dfa = _patterns_dfa(shape)
    return [text for text in shape.choices if dfa.accepts(text)]


def _number_dfa(shape: NumberShape) -> Dfa:
    if shape.choices is None:
        return number_dfa(shape)
    texts = map(number_text, shape.choices)
    return dfa_from_regular(Alternate(tuple(literal(text) for text in texts)))


def _quoted(content: ByteDfa) -> ByteDfa:
    """Put quotes around; inside, a raw quote never occurs but behind a backslash."""
    if not len(content):
        return content
    count, width = content.next.shape
    quote, start, end = ord('"'), 0, count + 1
    byte_class = content.byte_class.copy()
    byte_class[quote] = width  # a class of its own
    table = np.full((count + 2, width + 1), DEAD, dtype=np.int32)
    inner = table[1:end]
    inner[:, :width] = np.where(content.next == DEAD, DEAD, content.next + 1)
    escaped = inner[:, content.byte_class[quote]]
    inner[:, width] = np.where(content.label != DEAD, end, escaped)
    table[start, width] = 1
    label = np.full(count + 2, DEAD, dtype=np.int32)
    label[end] = 0
    return ByteDfa(byte_class, table, label)
