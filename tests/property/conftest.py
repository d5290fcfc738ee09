"""Settings of all property tests."""

from __future__ import annotations

import sys

from guided.recognizer.depth import MAX_FRAMES

# Compiling sets it where it is lower, and hypothesis minds when that happens inside of a test.
sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_FRAMES))
