"""A kernel that builds a trie of names over the states that spell any name.

The names "ab", "ac" and "x" make these nodes; a new child comes before its siblings:

    node  text  CONTENT_ROW        PARENT  BYTE  CHILD  SIBLING
    0     ""    content            0       -     4      0
    1     "a"   after "a" in it    0       a     3      0
    2     "ab"  after "ab" in it   1       b     0      0
    3     "ac"  after "ac" in it   1       c     0      2
    4     "x"   after "x" in it    0       x     0      1

A name leaves the trie where the states under it have no move for its next byte.
"""

from __future__ import annotations

from typing import Final

from guided.machine.table_layout import BASE, KIND
from guided.regular.dfa import DEAD
from guided.runtime.kernel import kernel

__all__ = ["BYTE", "CONTENT_ROW", "PARENT", "build_name_trie"]

CONTENT_ROW: Final = 0
PARENT: Final = 1
BYTE: Final = 2
CHILD: Final = 3
SIBLING: Final = 4
"""Columns of a node: the row that it overlays, its parent and the byte from there, its first child
and its next sibling, 0 for none."""


@kernel
def build_name_trie(rows, cells, byte_maps, content, text, name_ends, nodes, last_nodes):  # type: ignore[no-untyped-def]
    """Fill in ``nodes`` and ``last_nodes`` of a trie; return the number of nodes.

    ``rows``, ``cells`` and ``byte_maps`` are those of ``TableArrays``; any name begins in the row
    ``content``. ``text``, uint8, holds the names one after another as JSON spells them without
    their quotes, ``name_ends`` where each ends. ``nodes`` has room for one row more than the names
    have bytes, ``last_nodes`` one entry for each name: its last node, or -1 - the node after which
    it leaves the trie; see ``spelled_texts.OverlayTrie``.
    """
    for column in range(nodes.shape[1]):
        nodes[0, column] = 0
    nodes[0, CONTENT_ROW] = content
    count, start = 1, 0
    for name in range(len(name_ends)):
        node, leaves = 0, False
        for index in range(start, name_ends[name]):
            byte = text[index]
            child = nodes[node, CHILD]
            while child and nodes[child, BYTE] != byte:
                child = nodes[child, SIBLING]
            if child == 0:
                below = nodes[node, CONTENT_ROW]
                row = cells[rows[below, BASE] + byte_maps[rows[below, KIND], byte]]
                if row == DEAD:
                    leaves = True
                    break
                child = count
                count += 1
                nodes[child, CONTENT_ROW], nodes[child, PARENT], nodes[child, BYTE] = (
                    row,
                    node,
                    byte,
                )
                nodes[child, CHILD], nodes[child, SIBLING] = 0, nodes[node, CHILD]
                nodes[node, CHILD] = child
            node = child
        last_nodes[name] = -1 - node if leaves else node
        start = name_ends[name]
    return count
