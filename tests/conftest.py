"""What holds for all tests.

Examples have no deadline each: the first one may wait for machine code to be made. Kernels of
Triton are interpreted without a CUDA device: it asks that when it is imported.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from hypothesis import settings

settings.register_profile("guided", deadline=None)
settings.load_profile("guided")

if find_spec("triton") is not None:
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
