"""Prints digests of the masks of random constraints, to compare two commits.

    python -m benchmarks.mask_digests [--count N] [--seed N]

Draws N grammars, schemas and compositions of both over a vocabulary of bytes and pieces, and walks
each at random. A digest covers the masks, forced runs and shortest ends along the walks, and the
texts of errors: if two commits print the same lines, all of these are equal to the bit.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Final

from guided.constraint import ConstraintCompiler
from guided.errors import GuidedError
from guided.masks.matcher import Matcher
from guided.spec import Ebnf, Forcing, JsonSchema, Lark, Structure
from tests.kit.compositions import random_composition
from tests.kit.fuzz_grammars import Grammars
from tests.kit.fuzz_schemas import WRITINGS, MaskSubject
from tests.kit.walks import PIECES, random_walk
from tests.kit.written_ebnf import written

_MOST_STEPS: Final = 20


def _grammar(rng: random.Random) -> Structure:
    case = Grammars().draw(rng)
    if case.ebnf is None:
        return Lark(case.lark)
    return Ebnf(written(case.rules, random.Random(case.ebnf)), next(iter(case.rules)))


def _schema(rng: random.Random) -> Structure:
    case = MaskSubject().draw(rng)
    return JsonSchema(case.schema, WRITINGS[case.writing])


def _composition(rng: random.Random) -> Structure:
    return random_composition(rng)[0]


_KINDS: Final[Mapping[str, Callable[[random.Random], Structure]]] = {
    "grammars": _grammar,
    "schemas": _schema,
    "compositions": _composition,
}


def main() -> None:
    """Print a digest for each kind of constraint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="constraints of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first constraint")
    options = parser.parse_args()
    compiler = ConstraintCompiler(PIECES)
    for name, draw in _KINDS.items():
        digest, masks, refused = hashlib.sha256(), 0, 0
        for seed in range(options.seed, options.seed + options.count):
            rng = random.Random(seed)
            try:
                walk = random_walk(compiler.start(draw(rng)), rng, rng.randrange(_MOST_STEPS))
            except GuidedError as error:
                digest.update(f"{type(error).__name__}: {error}".encode())
                refused += 1
                continue
            for matcher in walk.matchers:
                _add(digest, matcher)
            masks += len(walk.matchers)
        print(f"{name}: {digest.hexdigest()[:16]} of {masks} masks, {refused} refused", flush=True)


def _add(digest: hashlib._Hash, matcher: Matcher) -> None:
    digest.update(matcher.mask().tobytes())
    digest.update(repr(matcher.forced_run(Forcing.CANONICAL)).encode())
    digest.update(repr(matcher.shortest_completion()).encode())


if __name__ == "__main__":
    main()
