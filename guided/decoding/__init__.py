"""The decoding core: draft trees, the choice of one token, verification."""

from guided.decoding.choice import Choice, Chooser, Closing
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafting import Drafter, TreeGrowth, no_guesses
from guided.decoding.sampling import choose_token
from guided.decoding.verify import Acceptance, verify

__all__ = [
    "Acceptance",
    "Choice",
    "Chooser",
    "Closing",
    "DraftTree",
    "Drafter",
    "TreeGrowth",
    "choose_token",
    "no_guesses",
    "verify",
]
