"""Counters of what was drafted for one answer: of all drafters together, and of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from guided.decoding.draft_tree import DraftTree
from guided.spec import DrafterUsage

__all__ = ["DraftCounts"]


class _Counts:
    """Counters of one drafter, or of all."""

    __slots__ = ("accepted", "calls", "corrected", "nanoseconds", "skipped", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        """Drafted tokens that the model judged."""
        self.accepted = 0
        """Drafted tokens that the model accepted."""
        self.calls = 0
        """Calls that had drafted tokens."""
        self.corrected = 0
        """Calls that ended where every drafted token was wrong."""
        self.skipped = 0
        self.nanoseconds = 0


class DraftCounts:
    """Counts the trees of one answer; not the runs that drafted tokens force."""

    def __init__(self) -> None:
        self.total = _Counts()
        self._by_drafter: dict[str, _Counts] = {}

    def by_drafter(self) -> tuple[DrafterUsage, ...]:
        """The counters of each drafter, in the order of its first use."""
        return tuple(
            [
                DrafterUsage(
                    name,
                    drafted_tokens=counts.tokens,
                    accepted_tokens=counts.accepted,
                    drafted_calls=counts.calls,
                    corrected_calls=counts.corrected,
                    skipped_calls=counts.skipped,
                    draft_nanoseconds=counts.nanoseconds,
                )
                for name, counts in self._by_drafter.items()
            ]
        )

    def add_proposal_time(self, nanoseconds: Mapping[str, int], skipped: Collection[str]) -> None:
        """Count the time that drafters took for one tree, and the drafters that were skipped."""
        for name, time in nanoseconds.items():
            self._counts_of(name).nanoseconds += time
        for name in skipped:
            self._counts_of(name).skipped += 1

    def add(self, tree: DraftTree, path: Sequence[int], *, path_ends_in_choice: bool) -> None:
        """Count one verified tree, of which the model accepted the nodes in ``path``.

        ``path_ends_in_choice`` is False where the answer ended at the last of them, so that nothing
        was chosen after it.
        """
        drafted = () if tree.is_trunk else tree.drafted
        # Calls without drafts would lower the mean accepted length.
        if not drafted:
            return
        taken, last = frozenset(path), path[-1]
        corrected_by_source: dict[str, bool] = {}
        for node in drafted:
            source = tree.sources[node]
            counts = self._counts_of(source)
            counts.tokens += 1
            counts.accepted += node in taken
            # Drafts after the path are wrong: something else was chosen there.
            is_wrong = path_ends_in_choice and tree.parents[node] == last
            corrected_by_source[source] = corrected_by_source.get(source, False) or is_wrong
        for source, is_corrected in corrected_by_source.items():
            counts = self._counts_of(source)
            counts.calls += 1
            counts.corrected += is_corrected
        self.total.calls += 1
        self.total.tokens += len(drafted)
        self.total.accepted += sum([node in taken for node in drafted])
        self.total.corrected += any(corrected_by_source.values())

    def _counts_of(self, source: str) -> _Counts:
        counts = self._by_drafter.get(source)
        if counts is None:
            counts = self._by_drafter[source] = _Counts()
        return counts
