"""States that spell the names of an object's members."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.json_schema.machine.exit_actions import ExitActions, KeyClass
from guided.json_schema.machine.name_classes import NameSpace
from guided.json_schema.machine.scalar_blocks import json_literal
from guided.json_schema.machine.spelled_texts import Chain, ChainBuilder, add_overlay, build_trie
from guided.machine.block import Block, make_block
from guided.machine.table import IN_KEY, IN_RARE_KEY, KEY_CLOSED, NO_BOUND
from guided.regular.byte_dfa import ByteDfa
from guided.regular.dfa import DEAD
from guided.regular.reachability import count_texts
from guided.runtime.work_budget import pause_if_due, with_pauses, without_gil

__all__ = ["NameStates"]

_TEXT: Final = attrgetter("text")
_QUOTE: Final = ord('"')


class NameStates:
    """Adds the states after the opening quote of a name, up to its closing quote.

    Where only spelled-out names may stand, each has a chain of states, shared where names begin
    alike. Where additional names may stand too, spelled-out names are overlays on the
    states of additional names (the *content*); the stack decides which of them may still be
    written. Methods raise LimitExceededError past the limit of the table.
    """

    def __init__(self, chains: ChainBuilder, exit_actions: ExitActions) -> None:
        self.chains = chains
        self.table = chains.table
        self.exit_actions = exit_actions
        self._chain_by_name: dict[str, Chain] = {}
        """The chain of a name with its closing quote."""
        # Caches; a content is identified by its first row.
        self._only_spelled: dict[tuple[str, ...], int] = {}
        """The results of ``only_spelled`` by names."""
        self._any_allowed: dict[tuple[int, tuple[str, ...], frozenset[str]], int] = {}
        """By content, spelled-out names, and those of them that leave the content and may stand."""
        self._not_spelled: dict[tuple[int, tuple[str, ...]], frozenset[str]] = {}
        """The results of ``_names_not_spelled`` by its arguments."""
        self._contents: dict[tuple[int, frozenset[int]], int] = {}
        """The first row of a content, by the identity of a space and the classes allowed of it."""

    def only_spelled(self, names: tuple[str, ...]) -> int:
        """Return the state after the quote where one of these names has to follow, at least one."""
        found = self._only_spelled.get(names)
        if found is None:
            chains = self._get_chains(names)
            chains.sort(key=_TEXT)
            found = self._only_spelled[names] = self.chains.get_or_add_branch(tuple(chains), 0)
        return found

    def _get_chains(self, names: Sequence[str]) -> list[Chain]:
        """Return the chains of names with their closing quotes, in a new list."""
        unknown = [name for name in names if name not in self._chain_by_name]
        if unknown:
            texts = [
                (json_literal(name)[1:], self.exit_actions.action_of_key(name))
                for name in with_pauses(unknown)
            ]
            added = self.chains.get_or_add(texts)
            self._chain_by_name.update(zip(unknown, added, strict=True))
        return [self._chain_by_name[name] for name in names]

    def any_allowed(
        self,
        space: NameSpace,
        allowed: frozenset[int],
        spelled: tuple[str, ...],
        candidates: tuple[str, ...],
    ) -> int:
        """Return the state after the quote where names of the classes ``allowed`` may follow too.

        ``spelled`` are the names that the schema spells out, ``candidates`` those of them that may
        still be written.
        """
        content = self._add_content(space, allowed)
        not_spelled = self._names_not_spelled(content, spelled)
        # Names that the states of additional names do not spell are added only while they may
        # stand.
        leaving = not_spelled.intersection(candidates) if not_spelled else not_spelled
        key = (content, spelled, leaving)
        if key not in self._any_allowed:
            in_trie = [name for name in spelled if name in leaving or name not in not_spelled]
            self._any_allowed[key] = self._add_overlay(content, in_trie)
        return self._any_allowed[key]

    def _names_not_spelled(self, content: int, names: tuple[str, ...]) -> frozenset[str]:
        """Return the names that the states of the content do not spell.

        ``content`` is the first row of the content, here and below.
        """
        found = self._not_spelled.get((content, names))
        if found is None:
            texts = [json_literal(name)[1:-1] for name in with_pauses(names)]
            trie = build_trie(self.table, content, texts)
            found = frozenset(
                name for name, node in zip(names, trie.last_nodes, strict=True) if node < 0
            )
            self._not_spelled[content, names] = found
        return found

    def _add_overlay(self, content: int, names: Sequence[str]) -> int:
        """Add names as overlays on the states of the content; return the row of the root."""
        action_of_key = self.exit_actions.action_of_key
        texts = [(json_literal(name)[1:], action_of_key(name)) for name in with_pauses(names)]
        trie = build_trie(self.table, content, [text[:-1] for text, _ in texts])
        return add_overlay(self.chains, trie, texts)

    def _add_content(self, space: NameSpace, allowed: frozenset[int]) -> int:
        """Return the first state of the additional names of the classes ``allowed`` of a space.

        The states are added if they are new. One of the classes must have a name that can be
        spelled.
        """
        key = (id(space), allowed)  # ``MemberRules`` keeps each space as long as this is here
        if key not in self._contents:
            block = space.block(allowed)
            assert block is not None, allowed
            closed, role, names_left = _add_closing_quotes(block)
            labels = {
                number: self.exit_actions.action_of(KeyClass(number))
                for number in closed.truth_vectors
            }
            self._contents[key] = self.table.add_block(closed, labels, role, names_left)
        return self._contents[key]


@functools.lru_cache(maxsize=4)
def _add_closing_quotes(
    content: Block,
) -> tuple[Block, NDArray[np.int8], NDArray[np.int64]]:
    """Return the block of the names of ``content``, each followed by its closing quote.

    The labels of ``content`` are ids of classes of names. Here a state for each class, after all
    states of ``content``, has the label: the closing quote of its names leads there. Also returns
    by state the columns ROLE and NAMES_LEFT, for ``TransitionTable.add_block``; a key is rare where
    it can become only finitely many names. Cached by the identity of ``content``, as all schemas
    share the block of any name, so the results must not be changed.
    """
    dfa = content.dfa
    pause_if_due()
    num_states, num_byte_classes = dfa.next.shape
    name_class_ids = np.unique(dfa.label[dfa.label != DEAD])
    byte_class = dfa.byte_class.copy()
    table = np.full((num_states + len(name_class_ids), num_byte_classes + 1), DEAD, dtype=np.int32)
    table[:num_states, :num_byte_classes] = dfa.next
    # The quote gets a byte class of its own, also where it follows a backslash inside a name.
    closing_state = num_states + np.searchsorted(name_class_ids, dfa.label)
    after_escaped_quote = dfa.next[:, byte_class[_QUOTE]]
    table[:num_states, num_byte_classes] = np.where(
        dfa.label != DEAD, closing_state, after_escaped_quote
    )
    byte_class[_QUOTE] = num_byte_classes
    label = np.full(len(table), DEAD, dtype=np.int32)
    label[num_states:] = name_class_ids
    closed = make_block(
        ByteDfa(byte_class, table, label), truth_vectors=tuple(name_class_ids.tolist())
    )
    # A name has one spelling, so as many names are left as texts.
    with without_gil(table.size // 16):
        names_left = count_texts(table, byte_class, label != DEAD, NO_BOUND)
    role = np.where(names_left < NO_BOUND, IN_RARE_KEY, IN_KEY).astype(np.int8)
    role[num_states:] = KEY_CLOSED
    return closed, role, names_left
