"""Mutants of valid grammars and patterns: each compiles, or is refused with an error of ours."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator, Mapping

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import GuidedError
from guided.spec import Ebnf, Lark, Regex, RegexDialect, Structure
from guided.spec.library import grammar_names, read_grammar
from tests.kit.campaign import FAULT_TEST, Fault, Subject, smaller_texts
from tests.kit.walks import BYTES

__all__ = ["FRONT_ENDS", "FrontEndSubject", "mutated_text"]

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
    'start: (IF NAME | NAME "=" VALUE)+\nIF.1: "if"i\nNAME: /[a-z]\\w*/\n'
    "VALUE: /'.*?(?<!!)'/ | /\\d+/\n%ignore /\\s+/",
    'start: s\ns: s ("+" | "++" | "-") p | p\n'
    'p: /a|ab/ | /(?:b_)+?c/ | "(" s ")" | "é".."ï" p?\n%ignore "_"',
)
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


def _python(text: str) -> Structure:
    return Regex(text)


def _ecma(text: str) -> Structure:
    return Regex(text, RegexDialect.ECMA)


def _text(name: str) -> str:
    return read_grammar(name).text


FRONT_ENDS: Mapping[str, tuple[Callable[[str], Structure], tuple[str, ...]]] = {
    "lark": (Lark, (*_LARK, *map(_text, grammar_names()))),
    "ebnf": (Ebnf, _EBNF),
    "python": (_python, _PATTERNS),
    "ecma": (_ecma, (*_PATTERNS, *_ECMA)),
}
"""By name, the function that makes a constraint of a text, and valid texts."""


class FrontEndSubject(Subject[str]):
    """Texts near valid ones: compiled or refused, never a crash."""

    def __init__(self, front_end: str) -> None:
        self.name = front_end
        self.make, self.valid = FRONT_ENDS[front_end]
        self.compiler = ConstraintCompiler(BYTES)

    def draw(self, rng: random.Random) -> str:
        text = rng.choice(self.valid)
        for _ in range(rng.choice([1, 1, 2, 3, 8])):
            text = mutated_text(text, rng.choice(self.valid), rng)
        return text

    def judge(self, case: str) -> Fault | None:
        with contextlib.suppress(GuidedError), warnings.catch_warnings():
            # Python warns of patterns whose meaning may change one day.
            warnings.simplefilter("ignore", FutureWarning)
            self.compiler.compile(self.make(case)).start().mask()
        return None

    def smaller(self, case: str) -> Iterator[str]:
        return smaller_texts(case)

    def as_test(self, case: str, fault: Fault) -> str:
        return FAULT_TEST.format(
            doc=fault.kind,
            imports="from tests.kit.fuzz_front_ends import FrontEndSubject",
            subject=f"FrontEndSubject({self.name!r})",
            case=repr(case),
        )


def mutated_text(text: str, other: str, rng: random.Random) -> str:
    """The text with a part lost, repeated, or inserted from ``other`` or from a dictionary."""
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
