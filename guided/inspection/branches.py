"""The draft tree of one step, prepared for drawing: a branch for each drafted token with its run.

In addition to the tree it has what drafters proposed and the grammar refused, and what the model
chose where no draft was right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from guided.decoding.choice import Choice
from guided.decoding.trace import Outcome, TracedProposal, TracedStep
from guided.inspection.origins import TracedToken
from guided.inspection.texts import shown
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

__all__ = ["Branch", "Fate", "about", "tree_of"]

_LONGEST: Final = 40
"""How many characters of the trunk are shown, its last ones."""


class Fate(StrEnum):
    """What became of a branch."""

    TRUNK = "certain"
    TAKEN = "taken"
    WRONG = "wrong"
    """The model chose something else at its place."""
    UNTRIED = "untried"
    """The model's choices led elsewhere before its place."""
    REFUSED = "refused"
    """The grammar does not allow it, so it was not in the tree."""
    CHOSEN = "chosen"
    """The model chose it where no draft was right."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A token that may follow, with the run that it forces and all that follows."""

    fate: Fate
    text: str
    run: str = ""
    note: str = ""
    """Its drafter and the drafter's probability for it, or another remark."""
    branches: tuple[Branch, ...] = ()


def tree_of(step: TracedStep, vocabulary: Vocabulary, tokens: Sequence[TracedToken]) -> Branch:
    """Return the draft tree of a step of the answer with these tokens; its root is the trunk."""
    return _Drawing(step, vocabulary, tokens).trunk()


def about(step: TracedStep) -> str:
    """Return the numbers of a step, in one line."""
    tree = step.tree
    drafted = tree.drafted
    taken = len({*drafted} & {*step.acceptance.path})
    outcomes = Counter(one.outcome for one in step.proposals)
    return (
        f"tokens in the call: {len(tree)}; drafted: {len(drafted)}, accepted: {taken};"
        f" refused by the grammar: {outcomes[Outcome.REFUSED]}, did not pay:"
        f" {outcomes[Outcome.LEFT_OUT]}"
    )


class _Drawing:
    """A step with lookups that drawing needs repeatedly."""

    def __init__(
        self, step: TracedStep, vocabulary: Vocabulary, tokens: Sequence[TracedToken]
    ) -> None:
        self._position, self._tree = step.position, step.tree
        self._path, self._choice = step.acceptance.path, step.acceptance.choice
        self._vocabulary = vocabulary
        self._tokens = tokens
        self._children = step.tree.children()
        self._taken = frozenset(self._path)
        self._proposals: dict[tuple[int, TokenId], list[TracedProposal]] = {}
        for proposal in step.proposals:
            self._proposals.setdefault((proposal.node, proposal.token), []).append(proposal)

    def trunk(self) -> Branch:
        """Return the branch of all certain tokens, followed by what was drafted."""
        count = self._tree.trunk
        text = shown(self._vocabulary.decode(self._tree.tokens[:count]))
        if len(text) > _LONGEST:
            text = f"…{text[-_LONGEST:]}"
        tokens = "1 token" if count == 1 else f"{count} tokens"
        return Branch(Fate.TRUNK, text, note=tokens, branches=self._after(count - 1))

    def _after(self, node: int) -> tuple[Branch, ...]:
        """Return what may follow a node that no run follows."""
        drafted = [self._drafted(child) for child in self._children[node]]
        return (*drafted, *self._chosen(node), *self._refused(node))

    def _drafted(self, node: int) -> Branch:
        tree, parent = self._tree, self._tree.parents[node]
        assert parent is not None, f"drafted node {node} is a root"
        run, tip = [], node
        while len(self._children[tip]) == 1 and tree.certain[self._children[tip][0]]:
            tip = self._children[tip][0]
            run.append(tree.tokens[tip])
        token = tree.tokens[node]
        told = _told(self._proposals.get((parent, token), ())) or tree.sources[node]
        fate, likely = Fate.UNTRIED, ""
        if node in self._taken:
            fate, likely = Fate.TAKEN, self._likely(self._path.index(node))
        elif self._is_judged(parent):
            fate = Fate.WRONG
        return Branch(
            fate,
            self._shown([token]),
            run=self._shown(run),
            note=_joined(told, likely),
            branches=self._after(tip),
        )

    def _chosen(self, node: int) -> tuple[Branch, ...]:
        """Return what the model chose after the end of the path."""
        choice = self._choice
        if choice is None or node != self._path[-1]:
            return ()
        if not isinstance(choice, Choice):
            return (Branch(Fate.CHOSEN, self._shown(choice.tokens), note="closed here"),)
        if choice.matcher is None:
            return (Branch(Fate.CHOSEN, "", note="the answer ends"),)
        note = self._likely(len(self._path))
        return (Branch(Fate.CHOSEN, self._shown([choice.token]), note=note),)

    def _likely(self, passed: int) -> str:
        """Return the model's probability of the token after this many nodes, if known."""
        index = self._position + passed - self._tree.trunk
        # A stop string may have ended the answer earlier.
        known = self._tokens[index].probability if index < len(self._tokens) else None
        return "" if known is None else f"the model {known:.2f}"

    def _refused(self, node: int) -> list[Branch]:
        return [
            Branch(Fate.REFUSED, self._shown([token]), note=_told(proposals))
            for (parent, token), proposals in self._proposals.items()
            if parent == node and proposals[0].outcome is Outcome.REFUSED
        ]

    def _is_judged(self, node: int) -> bool:
        """Whether the model chose something after a node."""
        return node in self._taken and (self._choice is not None or node != self._path[-1])

    def _shown(self, tokens: Iterable[TokenId]) -> str:
        return shown(self._vocabulary.decode(tokens))


def _told(proposals: Iterable[TracedProposal]) -> str:
    """Return the proposals of a token without repetitions: drafter, kind and probability."""
    told = [
        f"{': '.join(filter(None, (one.drafter, one.kind)))} {one.chance:.2f}" for one in proposals
    ]
    return _joined(*dict.fromkeys(told))


def _joined(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))
