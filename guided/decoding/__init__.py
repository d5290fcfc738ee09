"""The decoding core: draft trees and drafters, the choice of one token, verification.

::

    one token     sampling: penalties, filters, allowed_tokens; choice (with a budget), logprobs
    drafts        draft_tree, drafter, expansion, draft_budget
    verification  verify: coupled; rejection, with token_distribution; typical
    searches      beam_search, contrastive_search
    text          stop_strings, on partial_match
"""

from guided.decoding.choice import Chooser, ChosenToken, FinalCompletion
from guided.decoding.draft_budget import CostCurve, DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafter import (
    DraftBuilder,
    DraftContext,
    Drafter,
    DraftRequest,
    DraftState,
    VerifiedStep,
)
from guided.decoding.expansion import Expansion, ProposalRates, assumed_rates
from guided.decoding.penalties import NO_HISTORY, GrowingTokenArray, History
from guided.decoding.rejection import Proposal, choose_by_rejection
from guided.decoding.sampling import choose_token
from guided.decoding.stop_strings import StopSearch
from guided.decoding.token_distribution import TokenDistribution
from guided.decoding.typical import find_typical_path
from guided.decoding.verify import Acceptance, verify

__all__ = [
    "NO_HISTORY",
    "Acceptance",
    "Chooser",
    "ChosenToken",
    "CostCurve",
    "DraftBudget",
    "DraftBuilder",
    "DraftContext",
    "DraftRequest",
    "DraftState",
    "DraftTree",
    "Drafter",
    "Expansion",
    "FinalCompletion",
    "GrowingTokenArray",
    "History",
    "Proposal",
    "ProposalRates",
    "StopSearch",
    "TokenDistribution",
    "VerifiedStep",
    "assumed_rates",
    "choose_by_rejection",
    "choose_token",
    "find_typical_path",
    "verify",
]
