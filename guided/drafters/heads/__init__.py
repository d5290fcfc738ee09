"""Heads on the target's hidden states, which draft what comes after the next token.

::

    medusa_module, eagle_module    the heads themselves, as torch modules: for training as well
    medusa_files, eagle_files      their published layouts: reading and writing

See docs/heads.md.
"""

from guided.drafters.heads.eagle_files import load_eagle, save_eagle
from guided.drafters.heads.eagle_module import EagleHead, EagleShape
from guided.drafters.heads.medusa_files import load_medusa, save_medusa
from guided.drafters.heads.medusa_module import MedusaHeads, MedusaShape

__all__ = [
    "EagleHead",
    "EagleShape",
    "MedusaHeads",
    "MedusaShape",
    "load_eagle",
    "load_medusa",
    "save_eagle",
    "save_medusa",
]
