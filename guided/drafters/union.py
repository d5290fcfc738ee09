"""Several drafters for one engine: all add to the same tree, where equal proposals are one node."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import inf
from typing import Final

from guided.decoding.draft_policy import Account, DrafterPolicy, ProposalTimes, RecentGains
from guided.decoding.drafter import DraftContext, Drafter, DraftRequest, DraftState, VerifiedStep
from guided.spec import Forcing, TokenId

__all__ = ["DrafterUnion", "UnionDraftState"]


class UnionDraftState:
    """The draft states of one sequence, and what each drafter has won or lost in it, by name."""

    def __init__(
        self,
        draft_states: Mapping[str, DraftState],
        policies: Mapping[str, DrafterPolicy],
        *,
        is_named: bool,
        bounded: frozenset[str],
        wants_hidden_states: bool,
    ) -> None:
        self.draft_states: Final = draft_states
        self.is_named: Final = is_named
        """Whether the request names its drafters, so that they propose whatever they cost."""
        self.wants_hidden_states: Final = wants_hidden_states
        """Whether one of the opened drafters wants states."""
        self.accounts: Final[dict[str, Account]] = {}
        self._policies = policies
        # Their times say nothing of others, because the request limits how much they draft.
        self._bounded = {name: ProposalTimes() for name in bounded}
        self._gains = RecentGains()
        self._charges: dict[str, float] | None = None

    def is_bounded(self, name: str) -> bool:
        """Whether the request makes a drafter draft less than it would."""
        return name in self._bounded

    def times(self, name: str) -> ProposalTimes:
        """Return how long a drafter takes here; not shared with others if it is bounded."""
        times = self._bounded.get(name)
        return self._policies[name].times if times is None else times

    def seconds(self, name: str, sequences: int) -> float:
        """Return a drafter's time for this sequence when it proposes for several at once."""
        here = self.times(name).seconds(sequences)
        # Before its first use here, its time for others is the best guess.
        return (here or self._policies[name].times.seconds(sequences)) / sequences

    def begin(self) -> None:
        """Begin to draft for a step; forgets what was drafted before and never verified."""
        self._charges = {}

    def charge(self, name: str, steps: float) -> None:
        """Record what a drafter takes in this step, in decoding steps."""
        assert self._charges is not None, f"{name!r} is charged before the step began"
        self._charges[name] = steps

    def learn(self, verified: VerifiedStep) -> None:
        """Let every drafter learn from a step, and settle what it won or lost."""
        for draft_state in self.draft_states.values():
            draft_state.learn(verified)
        # A draft may never have been verified: given up half-way, or by a sequence that lost its
        # place. What it would have cost must not count in the next step, which had none.
        if self._charges is not None and verified.was_drafted:
            self._book(self._charges, _count_accepted(verified))
        self._charges = None

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Make every drafter release what it holds."""
        # The stack calls all of them, even if one raises.
        with ExitStack() as ends:
            for draft_state in reversed([*self.draft_states.values()]):
                ends.callback(draft_state.end, tokens)

    def _book(self, bills: Mapping[str, float], accepted: Mapping[str, int]) -> None:
        """Book for each drafter used in a step what its accepted tokens saved, less what it took.

        ``bills`` are in decoding steps; ``accepted`` counts tokens by drafter.
        """
        for name, bill in bills.items():
            # In decoding steps too: a step gives so many tokens without this drafter.
            won = accepted.get(name, 0) / self._gains.tokens_without(name)
            # A drafter without an account was used because the request names it, whatever it costs:
            # that must not count in answers of other requests. Where a request bounds a drafter,
            # the result is only for its own answer, and not for the policy that all share.
            account = self.accounts.get(name)
            if account is not None and self.is_bounded(name):
                account.book(won - bill)
            elif account is not None:
                self._policies[name].book(account, won - bill)
        self._gains.add(accepted)


def _count_accepted(verified: VerifiedStep) -> Mapping[str, int]:
    """Return how many tokens of each drafter the model accepted."""
    tree, found = verified.tree, dict[str, int]()
    for node in verified.acceptance.path:
        if not tree.certain[node]:
            source = tree.sources[node]
            found[source] = found.get(source, 0) + 1
    return found


class DrafterUnion:
    """Lets drafters propose one after the other, in their order, each where it pays.

    A node belongs to the first that proposes it, so a drafter is credited with what it adds to
    those before it.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        clock: Callable[[], int] = time.perf_counter_ns,
        *,
        widest_draft: float = inf,
    ) -> None:
        """``clock`` returns nanoseconds; at most ``widest_draft`` tokens are drafted in a step."""
        self._drafters: Final = tuple(drafters)
        self.names: Final = tuple(drafter.name for drafter in drafters)
        assert len({*self.names}) == len(self.names), f"drafters of one name: {self.names}"
        self.policies: Final = {name: DrafterPolicy(len(drafters)) for name in self.names}
        """What is known of the cost and gain of each."""
        self._clock = clock
        self._widest_draft = widest_draft

    def open(self, context: DraftContext) -> UnionDraftState | None:
        """Begin a sequence with those drafters that its request allows.

        Without forcing only those that it names draft: otherwise it is plain decoding, in which
        every token costs a model call. Returns ``None`` if nothing may be drafted.
        """
        if context.forcing is Forcing.OFF and not context.drafters:
            return None
        if context.max_drafted == 0:
            return None
        draft_states = {}
        # If one raises, no caller could end those opened before it.
        with ExitStack() as opened:
            for drafter in self._drafters:
                if not context.drafters or drafter.name in context.drafters:
                    draft_state = drafter.open(context)
                    if draft_state is not None:
                        opened.callback(draft_state.end, context.prompt)
                        draft_states[drafter.name] = draft_state
            opened.pop_all()
        if not draft_states:
            return None
        return UnionDraftState(
            draft_states,
            self.policies,
            is_named=bool(context.drafters),
            bounded=self._find_bounded(context),
            wants_hidden_states=any(
                drafter.wants_hidden_states
                for drafter in self._drafters
                if drafter.name in draft_states
            ),
        )

    def _find_bounded(self, context: DraftContext) -> frozenset[str]:
        """Return the drafters that the request makes draft less than by default."""
        if context.max_drafted is not None and context.max_drafted < self._widest_draft:
            return frozenset(self.names)
        return frozenset(
            [
                each.name
                for each in self._drafters
                if context.limit_widths(each.widths) != each.widths
            ]
        )

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Let each drafter add to the trees of the sequences for which it pays."""
        for draft in drafts:
            _union_state(draft).begin()
        for drafter in self._drafters:
            opened = [draft for draft in drafts if drafter.name in _union_state(draft).draft_states]
            paying = [draft for draft in opened if self._pays(drafter.name, draft, len(opened))]
            # A drafter that runs a model of its own makes a call even for none.
            if paying:
                self._propose_with(drafter, paying)

    def _pays(self, name: str, draft: DraftRequest, sequences: int) -> bool:
        """Whether to use a drafter for a sequence, one of ``sequences`` candidates."""
        draft_state, step = _union_state(draft), draft.builder.budget.step_seconds
        if draft_state.is_named or step is None:
            return True
        policy = self.policies[name]
        price = draft_state.seconds(name, sequences) / step
        account = draft_state.accounts.get(name)
        if account is None:
            account = draft_state.accounts[name] = policy.open_account(price)
        policy.add_allowance(account)
        if account.affords(price):
            return True
        draft.skipped.append(name)
        return False

    def _propose_with(self, drafter: Drafter, drafts: Sequence[DraftRequest]) -> None:
        """Let one drafter propose, and charge it with its time and its nodes."""
        name, count = drafter.name, len(drafts)
        requests, last_nodes = [], []
        for draft in drafts:
            draft.builder.source, draft.builder.kind = name, ""
            last_nodes.append(draft.builder.last_node)
            draft_state = _union_state(draft).draft_states[name]
            requests.append(DraftRequest(draft.tokens, draft_state, draft.builder))
        began = self._clock()
        drafter.propose(requests)
        nanoseconds = self._clock() - began
        nodes = [
            draft.builder.last_node - last for draft, last in zip(drafts, last_nodes, strict=True)
        ]
        # More drafted nodes took more of the time; finding nothing takes some as well.
        each = nanoseconds / (count + sum(nodes))
        for draft, added in zip(drafts, nodes, strict=True):
            draft.nanoseconds[name] = round(each * (1 + added))
        self._record_times(name, drafts)
        for draft, added in zip(drafts, nodes, strict=True):
            budget, draft_state = draft.builder.budget, _union_state(draft)
            step = budget.step_seconds
            if step is not None:
                # The average and not the time of this call, which may include another process.
                seconds = draft_state.seconds(name, count) + budget.added_seconds(added)
                draft_state.charge(name, seconds / step)

    def _record_times(self, name: str, drafts: Sequence[DraftRequest]) -> None:
        """Record a drafter's time for the sequences that it proposed for at once."""
        shared: list[int] = []
        for draft in drafts:
            draft_state, taken = _union_state(draft), draft.nanoseconds[name]
            if draft_state.is_bounded(name):
                draft_state.times(name).add(len(drafts), len(drafts) * taken / 1e9)
            else:
                shared.append(taken)
        if shared:
            average = sum(shared) / len(shared)
            self.policies[name].times.add(len(drafts), len(drafts) * average / 1e9)


def _union_state(draft: DraftRequest) -> UnionDraftState:
    draft_state = draft.draft_state
    assert isinstance(draft_state, UnionDraftState), f"{draft_state!r} is not of a union"
    return draft_state
