"""What proposes the tokens of draft trees: each drafter behind ``guided.decoding.Drafter``.

::

    union         several drafters, whose proposals meet in one tree
    lookup        the same text before, in prompt and answer (text_index); listed values, spellings
"""

from guided.drafters.lookup import LookupDrafter
from guided.drafters.union import DrafterUnion

__all__ = ["DrafterUnion", "LookupDrafter"]
