"""The drafters, which propose the tokens of draft trees (``guided.decoding.Drafter``).

::

    union         several drafters, whose proposals meet in one tree
    named         which of them an engine has
    lookup        the same text before, in prompt and answer (text_index); listed values, spellings
    suffix        earlier answers to the same constraint (suffix_trie, suffix_pools)
    lookahead     the model's own guesses of later tokens, made beside each call
    best_first    growing a tree by its likeliest token
    draft_model   smaller models, with pages of their own
    heads         Medusa and EAGLE-3 heads on the hidden states of the target
"""

from guided.drafters.lookup import LookupDrafter
from guided.drafters.union import DrafterUnion

__all__ = ["DrafterUnion", "LookupDrafter"]
