"""Constraints bound to a vocabulary: compiling, matching, caching."""

from guided.constraint.compiler import ConstraintCompiler
from guided.masks.limits import ConstraintLimits
from guided.masks.matcher import Matcher

__all__ = ["ConstraintCompiler", "ConstraintLimits", "Matcher"]
