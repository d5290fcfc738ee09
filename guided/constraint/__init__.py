"""Constraints bound to a vocabulary: compiling, matching, caching."""

from guided.constraint.compiler import ConstraintCompiler
from guided.constraint.limits import ConstraintLimits
from guided.constraint.matcher import Matcher

__all__ = ["ConstraintCompiler", "ConstraintLimits", "Matcher"]
