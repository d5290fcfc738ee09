"""Decides which drafters to use: each is charged with its own time, and rests while it loses.

An *account* holds what a drafter has recently won or lost. The unit is a decoding step: the time
that a step without drafts takes for one sequence of the batch::

    won     tokens of its own that the model accepted / tokens that a step gives without it
    spent   (its share of the time to propose + what its nodes add to the model call) / one step

A drafter proposes for a sequence as long as the account of that sequence affords it. So an answer
cannot lose more than its opening balance and a small share of its time. The opening balance follows
what the drafter has won in other answers, so that a drafter begins where it is worth it, and the
answer's own evidence soon outweighs that. See docs/drafter-policy.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["Account", "DrafterPolicy", "ProposalTimes", "RecentGains"]

_MAX_BALANCE: Final = 8.0
"""The most steps that a drafter may have won or lost; what is long ago does not count."""
_LOSS_ALLOWANCE: Final = 0.01
"""The share of all steps that drafters may lose together; trials are paid from it."""
_OPENING_STEPS: Final = 1.0
"""The opening balance in steps if the drafter has won much."""
_OPENING_PROPOSALS: Final = 4.0
"""The opening balance in proposals, if these cost more than ``_OPENING_STEPS``."""
_TRIAL_STEPS: Final = 0.3
"""The opening balance in steps if the drafter has recently neither won nor lost."""
_RESUME_PROPOSALS: Final = 2.0
"""Proposals that must be affordable before a drafter that rested is used again."""
_GAIN_WINDOW: Final = 8.0
"""Steps over which gains are averaged."""
_TIME_WINDOW: Final = 16.0
"""Proposals over which their time is averaged."""
_OUTLIER: Final = 4.0
"""The most average proposals that one counts for: another process may have run."""


class Account:
    """What a drafter has won or lost in one answer, or in all, in decoding steps."""

    __slots__ = ("balance", "is_active")

    def __init__(self, balance: float) -> None:
        self.balance = balance
        """Steps won, less those lost."""
        self.is_active = True
        """Whether the drafter may propose; False while it rests."""

    def book(self, steps: float) -> None:
        """Add what it won, or subtract what it lost."""
        self.balance = max(-_MAX_BALANCE, min(_MAX_BALANCE, self.balance + steps))

    def affords(self, price: float) -> bool:
        """Whether to let it propose at this price in steps."""
        # After a rest it needs enough for several proposals in a row, because one says little.
        needed = price if self.is_active else _RESUME_PROPOSALS * price
        self.is_active = self.balance >= needed
        return self.is_active


class ProposalTimes:
    """How long a drafter takes to propose, by the number of sequences it proposes for at once."""

    def __init__(self) -> None:
        # By the bits of the number of sequences: 1, 2 to 3, 4 to 7, 8 to 15.
        self._seconds: dict[int, float] = {}
        self._counts: dict[int, float] = {}

    def seconds(self, sequences: int) -> float:
        """Return the average; 0 if it was never measured."""
        width = sequences.bit_length()
        if width in self._seconds:
            return self._seconds[width]
        # Fewer sequences take no longer than this; the first use will measure it.
        narrower = [known for known in self._seconds if known < width]
        known = max(narrower) if narrower else min(self._seconds, default=0)
        return self._seconds.get(known, 0.0)

    def add(self, sequences: int, seconds: float) -> None:
        """Record how long one proposal took."""
        width = sequences.bit_length()
        count = self._counts.get(width, -1.0) + 1.0
        self._counts[width] = min(count, _TIME_WINDOW)
        # The first of a width is not counted: it may load, compile or allocate.
        if count == 0.0:
            return
        average = self._seconds.get(width, seconds)
        if count > 2.0:
            seconds = min(seconds, _OUTLIER * average)
        self._seconds[width] = average + (seconds - average) / min(count, _TIME_WINDOW)


class RecentGains:
    """Accepted tokens of each drafter per step and sequence, averaged over recent steps."""

    def __init__(self) -> None:
        self._gains: dict[str, float] = {}

    def add(self, accepted: Mapping[str, int]) -> None:
        """Record a step; a drafter that is not named had nothing accepted."""
        for name in self._gains.keys() | accepted.keys():
            gain = self._gains.get(name, 0.0)
            self._gains[name] = gain + (accepted.get(name, 0) - gain) / _GAIN_WINDOW

    def tokens_without(self, name: str) -> float:
        """Return the tokens that a step gives without one of the drafters."""
        # Without any drafts there is the token that the model chooses.
        return 1.0 + sum([gain for other, gain in self._gains.items() if other != name])


class DrafterPolicy:
    """What one engine knows of one of its drafters."""

    def __init__(self, drafters: int) -> None:
        """``drafters`` is how many the engine has; they share what may be lost."""
        self._allowance = _LOSS_ALLOWANCE / drafters
        self.times = ProposalTimes()
        # A drafter has credit until it shows what it is worth.
        self._account = Account(_MAX_BALANCE)

    @property
    def balance(self) -> float:
        """What it has recently won or lost in all answers, in steps."""
        return self._account.balance

    def open_account(self, price: float) -> Account:
        """Open the account of a new answer, where a proposal has this price."""
        won = self._account.balance / _MAX_BALANCE
        if won < 0.0:
            return Account(0.0)
        return Account(max(_TRIAL_STEPS, won * max(_OPENING_STEPS, _OPENING_PROPOSALS * price)))

    def add_allowance(self, account: Account) -> None:
        """Add what it may lose in a step of an answer."""
        account.book(self._allowance)
        # A drafter that has lost rests, and gets a trial once this makes up for it.
        if self._account.balance < 0.0:
            self._account.book(self._allowance)

    def book(self, account: Account, steps: float) -> None:
        """Record what it won or lost in a step of an answer."""
        account.book(steps)
        self._account.book(steps)
