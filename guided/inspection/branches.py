"""The draft tree of one step, for display: a branch for each drafted token and its forced run.

In addition to the tree it has what drafters proposed and the grammar refused, and what the model
chose where no draft was right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from guided.decoding.choice import ChosenToken
from guided.decoding.trace import Outcome, TracedProposal, TracedStep
from guided.inspection.origins import TracedToken
from guided.inspection.texts import show_bytes
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

__all__ = ["Branch", "Fate", "branch_tree", "step_summary"]

_MAX_TRUNK_CHARACTERS: Final = 40
"""Characters of the trunk that are shown, its last ones."""


class Fate(StrEnum):
    """What became of a branch; values are shown to users."""

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
    """A token of the tree, with the tokens that it forces and the branches after them."""

    fate: Fate
    text: str
    run: str = ""
    """The text of the tokens that it forces."""
    note: str = ""
    """Its drafter and the drafter's probability for it, or another remark."""
    branches: tuple[Branch, ...] = ()


def branch_tree(step: TracedStep, vocabulary: Vocabulary, tokens: Sequence[TracedToken]) -> Branch:
    """Return the draft tree of a step, whose root is the trunk; ``tokens`` are the answer's."""
    return _TreeBuilder(step, vocabulary, tokens).trunk()


def step_summary(step: TracedStep) -> str:
    """Return in one line how many tokens a step computed, drafted, accepted and refused."""
    tree = step.tree
    drafted = tree.drafted
    accepted = len({*drafted} & {*step.acceptance.path})
    outcomes = Counter(one.outcome for one in step.proposals)
    return (
        f"tokens in the call: {len(tree)}; drafted: {len(drafted)}, accepted: {accepted};"
        f" refused by the grammar: {outcomes[Outcome.REFUSED]}, did not pay:"
        f" {outcomes[Outcome.LEFT_OUT]}"
    )


class _TreeBuilder:
    """Builds the branches of one step, with the look-ups that this needs repeatedly."""

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
        count = self._tree.trunk_length
        text = show_bytes(self._vocabulary.decode(self._tree.tokens[:count]))
        if len(text) > _MAX_TRUNK_CHARACTERS:
            text = f"…{text[-_MAX_TRUNK_CHARACTERS:]}"
        tokens = "1 token" if count == 1 else f"{count} tokens"
        return Branch(Fate.TRUNK, text, note=tokens, branches=self._branches_after(count - 1))

    def _branches_after(self, node: int) -> tuple[Branch, ...]:
        """Return the branches after a node that forces no token."""
        drafted = [self._drafted_branch(child) for child in self._children[node]]
        return (*drafted, *self._chosen_branches(node), *self._refused_branches(node))

    def _drafted_branch(self, node: int) -> Branch:
        """Return the branch of a drafted node, with what follows it."""
        tree, parent = self._tree, self._tree.parents[node]
        assert parent is not None, f"drafted node {node} is a root"
        run, last = [], node
        while len(self._children[last]) == 1 and tree.certain[self._children[last][0]]:
            last = self._children[last][0]
            run.append(tree.tokens[last])
        token = tree.tokens[node]
        proposals = self._proposals.get((parent, token), ())
        drafter = _describe_proposals(proposals) or tree.sources[node]
        fate, probability = Fate.UNTRIED, ""
        if node in self._taken:
            fate, probability = Fate.TAKEN, self._model_probability(self._path.index(node))
        elif self._is_judged(parent):
            fate = Fate.WRONG
        return Branch(
            fate,
            self._show_tokens([token]),
            run=self._show_tokens(run),
            note=_join_remarks(drafter, probability),
            branches=self._branches_after(last),
        )

    def _chosen_branches(self, node: int) -> tuple[Branch, ...]:
        """Return what the model chose after the end of the path."""
        choice = self._choice
        if choice is None or node != self._path[-1]:
            return ()
        if not isinstance(choice, ChosenToken):
            return (Branch(Fate.CHOSEN, self._show_tokens(choice.tokens), note="closed here"),)
        if choice.matcher is None:
            return (Branch(Fate.CHOSEN, "", note="the answer ends"),)
        note = self._model_probability(len(self._path))
        return (Branch(Fate.CHOSEN, self._show_tokens([choice.token]), note=note),)

    def _model_probability(self, num_nodes: int) -> str:
        """Return the model's probability of the token after ``num_nodes`` of the path, in words.

        Empty if it is not known.
        """
        index = self._position + num_nodes - self._tree.trunk_length
        # A stop string may have ended the answer earlier.
        probability = self._tokens[index].probability if index < len(self._tokens) else None
        return "" if probability is None else f"the model {probability:.2f}"

    def _refused_branches(self, node: int) -> list[Branch]:
        """Return what was proposed after a node and refused by the grammar."""
        return [
            Branch(Fate.REFUSED, self._show_tokens([token]), note=_describe_proposals(proposals))
            for (parent, token), proposals in self._proposals.items()
            if parent == node and proposals[0].outcome is Outcome.REFUSED
        ]

    def _is_judged(self, node: int) -> bool:
        """Return whether the model chose something after a node."""
        return node in self._taken and (self._choice is not None or node != self._path[-1])

    def _show_tokens(self, tokens: Iterable[TokenId]) -> str:
        return show_bytes(self._vocabulary.decode(tokens))


def _describe_proposals(proposals: Iterable[TracedProposal]) -> str:
    """Return the distinct proposals of a token in words: drafter, kind and probability."""
    remarks = [
        f"{': '.join(filter(None, (one.drafter, one.kind)))} {one.chance:.2f}" for one in proposals
    ]
    return _join_remarks(*dict.fromkeys(remarks))


def _join_remarks(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))
