"""The decoding core: draft trees, the choice of one token, verification."""

from guided.decoding.choice import Choice, Chooser, Closing
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafting import Drafter, TreeGrowth, no_guesses
from guided.decoding.history import NO_HISTORY, History, TokenLog
from guided.decoding.sampling import choose_token
from guided.decoding.stopping import StopSearch
from guided.decoding.verify import Acceptance, verify

__all__ = [
    "NO_HISTORY",
    "Acceptance",
    "Choice",
    "Chooser",
    "Closing",
    "DraftTree",
    "Drafter",
    "History",
    "StopSearch",
    "TokenLog",
    "TreeGrowth",
    "choose_token",
    "no_guesses",
    "verify",
]
