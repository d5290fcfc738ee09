"""Tests that need a CUDA device."""

from __future__ import annotations

import pytest
import torch

__all__ = ["HAS_CUDA", "NEEDS_CUDA"]

HAS_CUDA = torch.cuda.is_available()
NEEDS_CUDA = pytest.mark.skipif(not HAS_CUDA, reason="needs a CUDA device")
