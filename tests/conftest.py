"""Kernels of Triton are interpreted without a CUDA device: it asks that when it is imported."""

from __future__ import annotations

import os
from importlib.util import find_spec

if find_spec("triton") is not None:
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
