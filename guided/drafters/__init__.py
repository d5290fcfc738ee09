"""What proposes the tokens of draft trees: each drafter is a ``guided.decoding.Drafter``.

::

    union         several drafters, whose proposals meet in one tree
    named         which of them an engine has
    lookup        the same text before, in prompt and answer (text_index); listed values, spellings
    suffix        earlier answers to the same constraint (suffix_trie, suffix_pools)
    lookahead     what the model itself guesses of places further on, beside each call
    best_first    growing a tree by its likeliest token
    draft_model   smaller models, with pages of their own
    heads         Medusa and EAGLE-3 heads on the hidden states of the target
"""

from guided.drafters.lookup import LookupDrafter
from guided.drafters.union import DrafterUnion

__all__ = ["DrafterUnion", "LookupDrafter"]
