"""Heads on the target's hidden states, which draft tokens after the next one.

::

    medusa_module, eagle_module    the heads themselves, as torch modules: for training as well
    medusa_files, eagle_files      their published layouts: reading and writing (head_files)
    growth                         trees of several sequences, the likeliest places first
    medusa, eagle                  the drafters; eagle_rows has the keys and values of EAGLE-3
    products                       packed matrices, and logits in the target's vocabulary
    load                           folders of heads for a target

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
