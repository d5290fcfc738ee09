"""Several drafters for one engine: all add to the same tree, where equal proposals are one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from guided.decoding.drafter import DraftContext, Drafter, DraftMemory, DraftRequest, Verified
from guided.spec import Forcing, TokenId

__all__ = ["DrafterUnion", "UnionMemory"]


class UnionMemory:
    """The memories of one sequence, by the name of their drafter."""

    def __init__(self, memories: Mapping[str, DraftMemory]) -> None:
        self.memories: Final = memories

    def learn(self, verified: Verified) -> None:
        """Let every drafter take note of a step."""
        for memory in self.memories.values():
            memory.learn(verified)

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Let every drafter give back what it holds."""
        for memory in self.memories.values():
            memory.end(tokens)


class DrafterUnion:
    """Lets drafters propose one after the other, in their order.

    A node belongs to the first that proposes it, so what a drafter is credited with is what it adds
    to those before it.
    """

    name: Final = "union"

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters: Final = tuple(drafters)
        self.names: Final = tuple(drafter.name for drafter in drafters)
        assert len({*self.names}) == len(self.names), f"drafters of one name: {self.names}"

    @property
    def wants_states(self) -> bool:
        """Whether one of them does."""
        return any(drafter.wants_states for drafter in self._drafters)

    def open(self, context: DraftContext) -> UnionMemory | None:
        """Begin a sequence with those drafters that its request allows.

        Without forcing only those that it names draft: otherwise it is the plain decoding in which
        every token costs a model call.
        """
        if context.forcing is Forcing.OFF and not context.drafters:
            return None
        memories = {}
        for drafter in self._drafters:
            if not context.drafters or drafter.name in context.drafters:
                memory = drafter.open(context)
                if memory is not None:
                    memories[drafter.name] = memory
        return UnionMemory(memories) if memories else None

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Let each drafter add to the trees of the sequences that it has a memory of."""
        for drafter in self._drafters:
            its = []
            for draft in drafts:
                assert isinstance(draft.memory, UnionMemory)
                memory = draft.memory.memories.get(drafter.name)
                if memory is not None:
                    draft.builder.source, draft.builder.kind = drafter.name, ""
                    its.append(DraftRequest(draft.tokens, memory, draft.builder))
            # A drafter that runs a model of its own makes a call even for none.
            if its:
                drafter.propose(its)
