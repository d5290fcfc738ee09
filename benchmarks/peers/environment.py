"""What has to be settled before libraries that read it are imported."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["one_thread"]

_DEFAULTS: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


def one_thread() -> None:
    """Make every library use one thread and no network, where the environment says nothing else."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
