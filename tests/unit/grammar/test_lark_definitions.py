"""The reader of Lark's format against Lark's own loader: what both define, and what they refuse."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import pytest
from lark import Lark
from lark.exceptions import GrammarError, UnexpectedInput
from lark.grammar import NonTerminal, Terminal
from lark.lexer import Token
from lark.load_grammar import GrammarBuilder, _literal_to_pattern

from guided.errors import GuidedError, InvalidConstraintError
from guided.grammar.lark.definitions import read_definitions, resolve_terminal
from guided.grammar.lark.source import Definition, Source
from guided.grammar.lark.syntax import (
    Alternatives,
    Literal,
    Name,
    Range,
    Repeated,
    Series,
    SpecialName,
    TemplateUse,
    Tree,
)
from guided.grammar.lark.terminals import parse_literal
from guided.regular.expression import literal
from guided.regular.patterns.python import parse_python_regex
from guided.spec.library import grammar_names, read_grammar

_SIGNS = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_MINE = {
    "mine": """
        thing: "<" part{WORD} _end
        part{x}: x other? | x ~ 2 -> twice
        other: thing
        unused: nothing_here
        _end: ">" | end
        end: _SEP
        WORD: LETTER+
        LETTER: "a".."z"i
        _SEP: ";"
        %ignore WORD
        %import far.away
        %import far (near, WORD) // but not by that name
    """.replace(" (near, WORD)", ".NEAR -> FAR"),
    "far": 'away: NEAR away |\nNEAR: "n" WIDE\nWIDE: /w/\n%extend WIDE: /x/',
}

_WRITTEN = {
    "marks": '?start.2: _x | y -> z\n!?y: "a"i -> b\n | -> c\n_x.-1 : ["b" (A|)] ~ 1..3 \n\n'
    "A.+3 :/x/\n",
    "comments": '// one\n# two\nstart: a // three\n  # four\n  | "//" "#" /#/ \\  \n "c" // | d\n'
    "\n\na:\n//",
    "no end of the line": 'start: "a"',
    "line breaks": 'start: "a"\r\n\r\n  | "b"\r\n\tb: /[^\\/]\\//\n\x0c\nc: b\n',
    "marks and signs": 'start: a?|a ? b* (c)+a\n!a: "x" ? "y"\nb:c\nc:',
    "imports": "%import common (INT, WS)\n%import common.WORD -> W\nstart: W INT\n%ignore WS",
    "imports of imports": "%import mine.thing\n%import mine (part, WORD)\nstart: thing part{WORD}",
    "imports by another name": "%import mine.thing -> it\nstart: it mine__end _mine__end",
    "imports of terminals of terminals": "%import mine.WORD\n%import mine.LETTER\n"
    'start: WORD LETTER\n%extend LETTER: "-"\n%override WORD: /w/',
    "extending what an imported terminal uses": "%import common (INT, SIGNED_INT)\n"
    'start: INT "," SIGNED_INT\n%extend INT: "x"',
    "overriding what an imported terminal uses": "%import common (INT, SIGNED_INT)\n"
    'start: INT "," SIGNED_INT\n%override INT: "x"',
    "overriding": 'a: b\nb: "x"\n%override a: b b\n%extend b: "y"\n%extend b: "z"\nstart: a',
    "overriding what is imported": "%import mine.thing\nstart: thing\n%override mine__other: X\n"
    "X: /x/",
    "templates": 'start: p{q, "a", r{B}}\np{f, x, y}: f{x} y\nq{x}: x\nr{x}: x | s{x}\ns{x}: B\n'
    'B: "b"',
    "extended terminals": 'start: A\nA:\n%extend A: "a"',
    "extended templates": 'start: p{"a"}\np{x}: x\n%extend p{x}: x x',
    "ignored": 'start: "a"\n%ignore " "\n%ignore A\n%ignore A | /b/\nA: "a" B\nB: /b/',
    "ranges": 'start: "a".."z" "b" .. "\\x63" A ~ 2..3\nA: "\\""..";"',
}

_REFUSED = {
    "a line that ends in brackets": 'start: ("a"\n)',
    "two lines": 'start: "a"\n"b"',
    "operators": 'start: "a"+?',
    "an operator before a name": 'start: "a" ?b\nb: "b"',
    "a name of both cases": 'Start: "a"',
    "a mark on a terminal": '!A: "a"\nstart: A',
    "marks on what is inlined": '?_a: "a"\nstart: _a',
    "a template of terminals": 'A{x}: "a"\nstart: A',
    "a template without parameters": 'a{}: "a"\nstart: a{}',
    "a template in a terminal": 'A: a{"x"}\na{x}: x\nstart: A',
    "an alias in capitals": 'start: "a" -> A',
    "an alias in brackets": 'start: ("a" -> b)',
    "an alias in a terminal": 'start: A\nA: "a" -> b',
    "an alias in what is ignored": 'start: "a"\n%ignore "b" -> c',
    "an alias in what is inlined": 'start: _a\n_a: "a" -> b',
    "two aliases": 'start: "a" -> b -> c',
    "a range of patterns": "start: /a/../b/",
    "a priority that is a name": 'start.a: "a"',
    "undefined in a terminal": "start: A\nA: B",
    "undefined in a template": "start: a{B}\na{x}: x",
    "undefined template": 'start: a{"b"}',
    "too many arguments": 'start: a{"b", "c"}\na{x}: x',
    "a parameter like a rule": 'start: a{"b"}\na{start}: start',
    "a parameter like another one": 'start: a{"b", "c"}\na{x, x}: x',
    "an empty terminal": 'start: A "a"\nA:',
    "nothing ignored": 'start: "a"\n%ignore',
    "a rule that is ignored": 'start: "a"\nb: "b"\n%ignore b',
    "undefined and ignored": 'start: "a"\n%ignore A',
    "imported and defined": "%import common.INT\nINT: /x/\nstart: INT",
    "imported twice": "%import common.INT -> A\n%import mine.WORD -> A\nstart: A",
    "imported by half": "%import common\nstart: INT",
    "imported from too far away": f"%import {'a' * 5_000}.A\nstart: A",
    "imported from nowhere": "%import nowhere.A\nstart: A",
    "imported without a name": "%import common ()\nstart: A",
    "imported and not there": "%import common.NOTHING\nstart: NOTHING",
    "imported and undefined": "%import mine.unused\nstart: unused",
    "imported terminals as rules": "%import common.INT -> int\nstart: int",
    "overriding nothing": 'start: "a"\n%override a: "b"',
    "extending nothing": 'start: "a"\n%extend a: "b"',
    "extending by other parameters": 'start: p{"a"}\np{x}: x\n%extend p{y}: y',
    "extending what is declared": 'start: A\n%declare A\n%extend A: "a"',
    "declared twice": "start: A\n%declare A A",
    "nothing declared": 'start: "a"\n%declare',
    "bad directive": 'start: "a"\n%ignored "a"',
    "a backslash that ends nothing": 'start: "a" \\ "b"',
    "letters of other scripts": 'start: é\né: "a"',
}

_INNER = [
    "a", "'", r"\'", r"\"", r"\\", r"\\n", r"\n\t\f\r", r"\x41\u00e9\U0001f600", r"a\\\"b", "é😀",
    r"\x5c\x5cd",
]  # fmt: skip


def _loaded(text: str) -> Any:
    """The definitions that Lark's loader reads."""
    builder = GrammarBuilder(import_paths=[_find])
    builder.load_grammar(text, "<grammar>/<text>")
    return builder.build()


def _theirs(tree: Any) -> object:
    """A tree of Lark's loader as plain data."""
    if isinstance(tree, (Terminal, NonTerminal)):
        return tree.name
    match tree.data:
        case "expansions":
            return _of_all("|", map(_theirs, tree.children))
        case "expansion":
            return _of_all("", map(_theirs, tree.children))
        case "maybe":
            return _theirs(tree.children[0]), 0, 1
        case "expr":
            item, sign, *bounds = tree.children
            low, high = _SIGNS.get(sign) or (int(bounds[0]), int(bounds[-1]))
            return _theirs(item), low, high
        case "template_usage":
            template, *arguments = tree.children
            return template.name, [_theirs(each) for each in arguments]
        case "range":
            return "..", *map(str, tree.children)
        case "literal":
            return str(tree.children[0])
        case "alias" | "value":
            return _theirs(tree.children[0])
    raise AssertionError(tree.data)


def _ours(tree: Tree, source: Source, *, in_terminal: bool) -> object:
    """The same for our reader; terminals inside of others are expanded, as in Lark."""

    def plain(each: Tree) -> object:
        return _ours(each, source, in_terminal=in_terminal)

    match tree:
        case Name(name):
            if in_terminal:
                return _ours_of(resolve_terminal(tree, source))
            return source.full_name(name)
        case Literal(text) | SpecialName(text):
            return text
        case Range(first, last):
            return "..", first.text, last.text
        case Series(parts):
            return _of_all("", map(plain, parts))
        case Alternatives(options):
            return _of_all("|", map(plain, options))
        case Repeated(item, low, high):
            return plain(item), low, high
        case TemplateUse(template, arguments):
            return source.full_name(template.text), [plain(each) for each in arguments]
    raise AssertionError("Lark has no such form")


def _ours_of(definition: Definition) -> object:
    bodies = [_ours(*body, in_terminal=definition.is_terminal) for body in definition.bodies]
    return _of_all("|", iter(bodies))


def _of_all(kind: str, parts: Iterator[object]) -> object:
    found: list[object] = []
    for part in parts:
        inner = part[1] if isinstance(part, tuple) and part[0] == kind else [part]
        assert isinstance(inner, list)
        found += inner
    # Lark puts additions to a definition first; the order does not matter.
    found = sorted(found, key=repr) if kind == "|" else found
    return found[0] if len(found) == 1 else (kind, found)


def _all_of_lark() -> Iterator[str]:
    for file in files("lark").joinpath("grammars").iterdir():
        if file.name.endswith(".lark"):
            yield file.read_text("utf-8")


_ALL = {
    **_WRITTEN,
    **{name: read_grammar(name).text for name in grammar_names()},
    **{f"lark {number}": text for number, text in enumerate(_all_of_lark())},
}


@pytest.mark.parametrize("name", _ALL)
def test_definitions_are_those_of_larks_loader(name: str) -> None:
    text = _ALL[name]
    theirs, ours = _loaded(text), read_definitions(text, _MINE)
    rules = {name: (params, _theirs(tree)) for name, params, tree, _ in theirs.rule_defs}
    terminals = {name: tree and _theirs(tree) for name, (tree, _) in theirs.term_defs}
    ignored = [terminals[each] if each.startswith("__") else each for each in theirs.ignore]
    named = {name: tree for name, tree in terminals.items() if not name.startswith("__")}
    found: Mapping[str, Definition] = ours.by_name
    assert {
        each.name: (each.parameters, _ours_of(each))
        for each in found.values()
        if not each.is_terminal
    } == rules
    assert {
        each.name: _ours_of(each) if each.bodies else None
        for each in found.values()
        if each.is_terminal
    } == named
    assert [
        each.body.text
        if isinstance(each.body, Name)
        else _ours(each.body, ours.source, in_terminal=True)
        for each in ours.ignored
    ] == ignored


@pytest.mark.parametrize("name", _REFUSED)
def test_what_lark_refuses_is_refused_with_its_place(name: str) -> None:
    with pytest.raises((GrammarError, UnexpectedInput, AssertionError, OSError)):
        Lark(_REFUSED[name], import_paths=[_find])
    with pytest.raises(GuidedError) as caught:
        read_definitions(_REFUSED[name], _MINE)
    assert "line " in str(caught.value)
    assert "^" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *(f'"{inner}"' for inner in _INNER),
        *(f"/{inner}/" for inner in (*_INNER, r"\/", r"[\d\/]+", r'\\"', r"\\\"", r"\.", "a|b")),
        "/a\r\n b\r/x",
        "/a\nb/x",
        "/a\\\n/x",
    ],
)
def test_literals_stand_for_what_they_stand_for_in_lark(text: str) -> None:
    ours = parse_literal(Literal(text, 0), Source(text))
    kind = "STRING" if text.startswith('"') else "REGEXP"
    pattern = _literal_to_pattern(Token(kind, text))  # type: ignore[no-untyped-call]
    if kind == "STRING":
        assert ours == literal(pattern.value)
    else:
        assert ours == parse_python_regex(pattern.value, re.X if pattern.flags else 0)


@pytest.mark.parametrize("text", ['""', "//", r'"\u12"', r'"\xg0"', r'"\UFFFFFFFF"', "/a\nb/"])
def test_literals_that_mean_nothing_are_refused_as_lark_does(text: str) -> None:
    kind = "STRING" if text.startswith('"') else "REGEXP"
    with pytest.raises(GrammarError):
        _literal_to_pattern(Token(kind, text))  # type: ignore[no-untyped-call]
    with pytest.raises(InvalidConstraintError, match="line 1, column 1"):
        parse_literal(Literal(text, 0), Source(text))


def _find(_: str | None, path: str) -> tuple[str, str]:
    name = path.removesuffix(".lark").replace("/", ".")
    if name in _MINE:
        return path, _MINE[name]
    raise FileNotFoundError(path)


@pytest.mark.parametrize("seed", range(40))
def test_broken_grammars_are_refused_where_lark_refuses_them(seed: int) -> None:
    rng = random.Random(seed)
    for name in rng.sample(sorted(_WRITTEN), 6) + rng.sample(grammar_names(), 2):
        text = _broken(_ALL[name], rng)
        try:
            _loaded(text)
            is_right = True
        except (GrammarError, UnexpectedInput, OSError, TypeError):
            is_right = False
        except AssertionError as error:
            # Here a name stands for one grammar, with a dot before it or without.
            is_right = "base_path" in str(error)
        refusal = _refusal(text)
        if not is_right and refusal is None:
            # What is not Lark's is one of llguidance's additions: ``~x``, ``x{2}`` or ``x-y``.
            assert re.search(r"~\s*[^\d\s]|\{\d|\w-\w", text), text
            continue
        # Lark refuses bounds, aliases, empty terminals and a backslash at the end of a text when it
        # compiles the grammar.
        assert is_right == (refusal is None) or re.search(
            "out of order|an alias stands|is empty|text is not closed", refusal or ""
        ), text


def _refusal(text: str) -> str | None:
    """Why our reader refuses a grammar, ``None`` if it does not."""
    try:
        read_definitions(text, _MINE)
    except GuidedError as error:
        return str(error)
    return None


def _broken(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(text) + 1)
        piece = rng.choice(
            ["", *'.:|{}()[]"/~?!*+%-> \n\\#,', "a", "A", "_", "0", "..", "->", "//"]
        )
        text = text[:at] + piece + text[at + rng.randint(0, 2) :]
    return text
