"""Mutants of valid grammars and patterns, put through the front ends until the time is up.

``python -m tests.kit.fuzz FRONT_END [--seconds 600] [--seed 0]``, of ``lark``, ``contextual``,
``ebnf``, ``python`` and ``ecma``. A mutant compiles and has a mask, or is refused with an error of
ours; all else, and what takes longer than ``SLOW`` seconds, is printed with its text and ends the
run with status 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import typer

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import GuidedError
from guided.library import grammar_names, read_grammar
from guided.spec import Ebnf, Lark, Regex, RegexDialect, Structure
from tests.kit.walks import BYTES

__all__ = ["FRONT_ENDS", "SLOW", "compiles", "mutants"]

SLOW = 20.0
"""Seconds that no text may take; the bounds on work end most after a tenth of that."""

_EBNF = (
    'root ::= (item "\\n")+\nitem ::= "- " [^\\n]+ | "- [" list "]"\nlist ::= list ", " w | w\n'
    "w ::= [a-zA-Z]{1,20}",
    'root ::= object\nvalue ::= object | array | string | "null"\n'
    'object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws\n'
    'array ::= "[" ws (value ("," ws value)*)? "]" ws\n'
    'string ::= "\\"" ([^"\\\\\\x7F\\x00-\\x1F] '
    '| "\\\\" ["\\\\/bfnrt] | "\\\\u" [0-9a-f]{4})* "\\"" ws\n'
    "ws ::= [ \\t\\n]{0,20}",
    'root ::= e\ne ::= e ("+" | "-") t | t\nt ::= "(" e ")" | [0-9]+ | "é\\U0001F600" # ends',
)
_LARK = (
    "start: (OP | A)+\nOP: /[+*]|[?](?![a-z])/\nA: /\\b[a-z]+\\b/ | /(?<!é)é(?=.;|,)/\n"
    "%ignore / (?<!x)/",
    'start: e ~ 2..3\ne: e "+" N | N\nN: /\\d+(?!\\w)(?:\\.\\d*)?/ | /(?:-(?!-))+/\n'
    "%ignore /#.*?\\n/",
)
_SCANNED = (
    'start: (IF NAME | NAME "=" VALUE)+\nIF.1: "if"i\nNAME: /[a-z]\\w*/\n'
    "VALUE: /'.*?(?<!!)'/ | /\\d+/\n%ignore /\\s+/",
    'start: s\ns: s ("+" | "++" | "-") p | p\n'
    'p: /a|ab/ | /(?:b_)+?c/ | "(" s ")" | "é".."ï" p?\n%ignore "_"',
)
_LALR = ("arithmetic", "iso8601", "json", "semver", "xml_fragment")
"""Of the library, those that are LALR(1)."""
_PATTERNS = (
    r"(?!if|else)[a-z_]\w{0,30}(?:\.\w+)*",
    r"\d{4}-(0[1-9]|1[0-2])-(?:[0-2]\d|3[01])(?:T\d\d:\d\d(?::\d\d)?)?",
    r"[^\n\"\\]*?(?:\\.[^\"\\]*)*",
    r"(?i:äß|ſ)+(?=\w)\w(?<!x)[\u00e9-\u0101\x41]{2,5}",
    r"(a|b)*a(a|b){5}|\bfoo\b",
)
_ECMA = (
    r"\p{L}+\P{Nd}*[\p{Script=Greek}\-]",
    r"\u{1F600}(?<=a)b|\cA\x41[^]",
    r"^(?:[a-z]{2,}@)+$",
)
_DICTIONARY = (
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "|",
        "*",
        "+",
        "?",
        "~ 3..5",
        "{2,5}",
        "{1000}",
        ":",
        "::=",
        "\n",
    ),
    *(
        '"',
        "/",
        "\\",
        ".",
        "^",
        "$",
        "-",
        "->",
        "!",
        ",",
        " ",
        "%ignore ",
        "%import common.",
        "// ",
    ),
    *(
        "%override ",
        "%extend ",
        "%declare ",
        "start",
        "root",
        "A",
        '"a"',
        "/x/i",
        "(?!",
        "(?<=",
        "(?i:",
    ),
    *(
        "\\b",
        "\\p{L}",
        "\\u{",
        "\\x",
        "\\N{BULLET}",
        "é",
        "\U0001f600",
        "\x00",
        "\ud800",
        "'",
        "\\1",
        "*?",
    ),
)


def _contextual(text: str) -> Structure:
    return Lark(text, reading="contextual")


def _python(text: str) -> Structure:
    return Regex(text)


def _ecma(text: str) -> Structure:
    return Regex(text, RegexDialect.ECMA)


def _text(name: str) -> str:
    return read_grammar(name).text


FRONT_ENDS: Mapping[str, tuple[Callable[[str], Structure], tuple[str, ...]]] = {
    "lark": (Lark, (*_LARK, *map(_text, grammar_names()))),
    "contextual": (_contextual, (*_SCANNED, *map(_text, _LALR))),
    "ebnf": (Ebnf, _EBNF),
    "python": (_python, _PATTERNS),
    "ecma": (_ecma, (*_PATTERNS, *_ECMA)),
}
"""By name what makes a constraint of a text, and valid texts."""


def mutants(front_end: str, rng: random.Random) -> Iterator[str]:
    """Texts near valid ones, without end."""
    _, valid = FRONT_ENDS[front_end]
    while True:
        text = rng.choice(valid)
        for _ in range(rng.choice([1, 1, 2, 3, 8])):
            text = _mutated(text, rng.choice(valid), rng)
        yield text


def _mutated(text: str, other: str, rng: random.Random) -> str:
    first, last = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    last = min(last, first + rng.choice([1, 5, 40]))
    match rng.randrange(6):
        case 0:
            return text[:first] + text[last:]
        case 1:
            return text[:last] + text[first:last] * rng.choice([1, 2, 50]) + text[last:]
        case 2:
            at = rng.randrange(len(other) + 1)
            return text[:first] + other[at : at + rng.choice([3, 30])] + text[first:]
        case 3:
            return text[:first] + rng.choice(_DICTIONARY) + text[last:]
        case 4:
            return (
                text[:first]
                + chr(rng.choice([rng.randrange(128), rng.randrange(0x3000)]))
                + text[last:]
            )
        case _:
            return text[:first] + rng.choice(_DICTIONARY) * rng.choice([1, 3, 200]) + text[first:]


def compiles(front_end: str, text: str, compiler: ConstraintCompiler) -> bool:
    """Whether a text is taken rather than refused; raises what is no error of ours."""
    make, _ = FRONT_ENDS[front_end]
    try:
        compiler.compile(make(text)).start().mask()
    except GuidedError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("front_end", choices=FRONT_ENDS)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    compiler = ConstraintCompiler(BYTES)
    until = time.monotonic() + options.seconds
    tried = taken = failed = 0
    slowest = 0.0
    for text in mutants(options.front_end, random.Random(options.seed)):
        begun = time.process_time()
        try:
            taken += compiles(options.front_end, text, compiler)
        except Exception as error:
            failed += 1
            typer.echo(f"{type(error).__name__}: {error}: {text!r}")
        tried += 1
        seconds = time.process_time() - begun
        if seconds > SLOW:
            failed += 1
            typer.echo(f"{seconds:.1f} s: {text!r}")
        slowest = max(slowest, seconds)
        if time.monotonic() > until:
            break
    counts = f"{tried} mutants, {taken} taken, {failed} failed"
    typer.echo(f"{options.front_end}: {counts}, slowest {slowest:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
