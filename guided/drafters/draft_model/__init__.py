"""Draft models: smaller models that draft for a target.

::

    drafter       the calls of a draft model, for all sequences of a step
    tree_growth   the tree of one sequence, level by level
    text_cache    what was read of each sequence, up to the size of its cache
    read_text     the rows of one sequence
    vocabularies  whether a token means the same to two models
    respelling    how a draft model reads and drafts tokens that are not its own
"""

from guided.drafters.draft_model.drafter import CHAIN, DraftModel, ModelDraftState
from guided.drafters.draft_model.respelling import Respelling
from guided.drafters.draft_model.vocabularies import describe_difference

__all__ = ["CHAIN", "DraftModel", "ModelDraftState", "Respelling", "describe_difference"]
