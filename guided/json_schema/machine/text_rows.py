"""Rows of strings of which a few are judged by themselves, laid over the rows of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.json_schema.machine.chains import Chain, Chains
from guided.json_schema.machine.scalars import json_key
from guided.regular.dfa import DEAD

__all__ = ["lay_texts"]

_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_OTHER_SPELLINGS: Final = b"u/"
"""What stands behind a backslash where a character is not spelled the shortest way."""


def lay_texts(
    chains: Chains, start: int, endless: NDArray[np.bool_], texts: Mapping[str, int]
) -> int | None:
    """The row behind an opening quote; at ``start`` begins the block of all other strings.

    ``texts`` gives the label of each string that is judged by itself, DEAD where it is not allowed.
    ``endless`` marks the rows of that block that texts of any length lead on from.
    Where a forbidden text goes on in limited ways only, ``None``. Near the texts characters keep
    their shortest spelling, or one of them could be written so that it is not recognised.
    """
    table = chains.table
    under = [table.step(start, _QUOTE)]
    children: list[dict[int, int]] = [{}]
    ends: dict[int, int] = {}
    leaving: dict[tuple[int, int], list[Chain]] = {}
    for text, label in texts.items():
        node = 0
        spelled = json_key(text)[1:]
        for depth, byte in enumerate(spelled[:-1]):
            if byte not in children[node]:
                row = table.step(under[node], byte)
                if row == DEAD:
                    if label != DEAD:
                        at = (node, depth)
                        leaving.setdefault(at, []).append(chains.chains([(spelled, label)])[0])
                    break
                if label == DEAD and not endless[row - start]:
                    return None
                children[node][byte] = len(under)
                under.append(row)
                children.append({})
            node = children[node][byte]
        else:
            if label == DEAD and not endless[under[node] - start]:
                return None
            ends[node] = label
    _spell_shortly(chains, under, children)
    branches: list[tuple[int, int, int]] = []
    for (node, depth), group in leaving.items():
        group.sort(key=lambda chain: chain.text)
        for byte in sorted({chain.text[depth] for chain in group}):
            alike = tuple(chain for chain in group if chain.text[depth] == byte)
            branches.append((node, byte, chains.branch(alike, depth + 1)))
    exits = {label: chains.exit_row(label) for label in set(ends.values()) - {DEAD}}
    first = table.num_rows
    edges = [{byte: first + child for byte, child in below.items()} for below in children]
    for node, byte, row in branches:
        edges[node][byte] = row
    for node, label in ends.items():
        edges[node][_QUOTE] = DEAD if label == DEAD else exits[label]
    for node in _behind_backslashes(children):
        edges[node].update({byte: DEAD for byte in _OTHER_SPELLINGS if byte not in edges[node]})
    added = table.add_overlays(under, edges)
    table.lead_on(range(added, added + len(under)))
    return added


def _spell_shortly(chains: Chains, under: list[int], children: list[dict[int, int]]) -> None:
    """Give every node a child behind a backslash, where other spellings can be cut off."""
    behind = _behind_backslashes(children)
    for node in range(len(children)):
        row = chains.table.step(under[node], _BACKSLASH)
        if node not in behind and _BACKSLASH not in children[node] and row != DEAD:
            children[node][_BACKSLASH] = len(under)
            under.append(row)
            children.append({})


def _behind_backslashes(children: list[dict[int, int]]) -> set[int]:
    """The nodes in the middle of an escape."""
    behind: set[int] = set()
    for node, below in enumerate(children):
        if node not in behind and _BACKSLASH in below:
            behind.add(below[_BACKSLASH])
    return behind
