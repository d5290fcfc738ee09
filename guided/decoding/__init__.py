"""The decoding core: draft trees, their drafters, the choice of one token, verification."""

from guided.decoding.choice import Choice, Chooser, Closing
from guided.decoding.cost_curve import CostCurve
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafting import Drafter, NoDrafter, OpenDrafter, no_drafter
from guided.decoding.history import NO_HISTORY, History, TokenLog
from guided.decoding.lookup_drafter import LookupDrafter, lookup_drafters
from guided.decoding.sampling import choose_token
from guided.decoding.stopping import StopSearch
from guided.decoding.tree_growth import TreeGrowth
from guided.decoding.verify import Acceptance, verify

__all__ = [
    "NO_HISTORY",
    "Acceptance",
    "Choice",
    "Chooser",
    "Closing",
    "CostCurve",
    "DraftBudget",
    "DraftTree",
    "Drafter",
    "History",
    "LookupDrafter",
    "NoDrafter",
    "OpenDrafter",
    "StopSearch",
    "TokenLog",
    "TreeGrowth",
    "choose_token",
    "lookup_drafters",
    "no_drafter",
    "verify",
]
