"""The compiler alone: constraints to token masks, for hosts that run their own models.

>>> from guided.compiler import Compiler
>>> compiler = Compiler(tokenizer)
>>> matcher = compiler.compile({"type": "integer"}).matcher()
>>> bitmask = compiler.bitmask(rows=1)
>>> matcher.fill_bitmask(bitmask)

It needs the extra ``compiler``, but neither torch nor grpc. See docs/mask-api.md.
"""

from guided.extras import needing

with needing(__name__, "compiler"):
    from guided.compiler.batch import fill_bitmasks, fill_tree
    from guided.compiler.compiler import Compiled, Compiler
    from guided.compiler.matcher import Matcher
    from guided.masks.limits import ConstraintLimits
    from guided.masks.vocabulary import Vocabulary

__all__ = [
    "Compiled",
    "Compiler",
    "ConstraintLimits",
    "Matcher",
    "Vocabulary",
    "fill_bitmasks",
    "fill_tree",
]
