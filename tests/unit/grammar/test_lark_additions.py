"""What llguidance adds to Lark's format: what it means here, and what is refused with a way out."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from guided.constraint.machine import machine_of
from guided.errors import (
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.spec import Lark
from tests.kit.grammars import accepted_by


def _machine(text: str, **imports: str) -> GrammarMachine:
    return GrammarMachine(network_from_grammar(lower_lark(text, imports=imports)))


_FEATURES = {
    "a header": ('%llguidance {}\n\nstart: "a"', ["a"], ["", "aa"]),
    "options that say what is so": (
        'start: "a"\n%llguidance {"no_forcing": false,\n  "allow_initial_skip": true}\n%ignore " "',
        ["a", " a"],
        ["b"],
    ),
    "captures": (
        'start[capture]: a b\na[capture="x"]: "a"\n!b.2[capture, lazy]: "b"', ["ab"], ["", "a"]
    ),
    "repeats in braces": (
        'start: "a"{2} x{1,} ("c" | y){,2} z{x}{2,3}\nx: "b"\ny: "d"\nz{a}: a',
        ["aabbb", "aabbbb", "aabcbb", "aabbcdbbb"],
        ["abbb", "aacbb", "aabcccbb", "aab"],
    ),
    "repeats in braces of terminals": (
        'start: A\nA: ("a" B{0,1}){2}\nB: "b"', ["aa", "aba", "abab"], ["a", "abb", "aaa"]
    ),
    "lazy": ('start: a "x"\na[lazy]: /.*b/', ["bx", "aabx"], ["abbx", "abx.bx", "x"]),
    "lazy without an end": ('start: a "x"\na[lazy]: /[0-9]+/', ["1x"], ["12x", "x"]),
    "lazy names": (
        'start: a "!"\na[lazy]: A B | "c"\nA: "a"+\nB: "b"+', ["ab!", "aab!", "c!"], ["abb!", "!"]
    ),
    "suffix": (
        'start: a "x"\na[suffix="</a>"]: /(?s:.*)/',
        ["</a>x", "<b></a>x", "<</a>x", "\n</a>x"],
        ["x", "</a></a>x", "</a>"],
    ),
    "suffix of a name": (
        'start: a* "x"\na[suffix=END, stop_capture="e"]: /[a-z]+/\nEND: "." | "!!"',
        ["x", "ab.x", "a!!b.x"],
        ["a!x", ".x", "a..x"],
    ),
    "suffix in the text": (
        'start: a\na[lazy, suffix="ab"]: /[a-z]{2,4}/', ["abab", "xxab", "abxab"], ["aab", "ababab"]
    ),
    "ignored before lazy": (
        'start: a a\na[lazy]: /[a-z ]*;/\n%ignore " "', ["a b;c;", " ;  ;"], ["a b;", "a;b;c;"]
    ),
    "common": (
        'start: A "."\nA: /[a-c]+/ & /.*b.*/ & ~"abc" | "z"', ["b.", "abcc.", "z."], ["abc.", "a."]
    ),
    "common of series": ('start: A\nA: "a" B & B "b"\nB: "a" | "b"', ["ab"], ["aa", "bb", "aabb"]),
    "complement before repeats": ('start: A\nA: (~/.|ab*/)+', ["", "ba", "bb", "babb"], []),
    "complement of names": (
        'start: A "!"\nA: /[a-z]+/ & ~KEY\nKEY: "if" | "in"', ["i!", "iff!"], ["if!", "in!"]
    ),
    "inside of others": (
        'start: A ~ 2\nA: "<" (/[a-z]*/ & ~("x" | "y"?)) ">"', ["<z><xx>"], ["<x><z>", "<><z>"]
    ),
    "beside look-around": (
        'start: (A | /\\d/)+\nA: "a" (/\\w\\w/ & ~"bb") /(?!\\d)/',
        ["abc", "abcabc"],
        ["abb", "abc1"],
    ),
    "after look-around": (
        'start: A+\nA: /a(?!c)/ (/[a-d]/ & ~"b")', ["aa", "adaa"], ["ac", "ab", "aaac"]
    ),
    "dashes in names": (
        'start: _a-b1 A-B->c-d\n_a-b1: "a"\n%ignore A-1\nA-B: "b"\nA-1: " "', ["a b"], ["a", "b"]
    ),
    "nothing": ('start: "" a* ""?\na: "a" | ""', ["", "a", "aa"], ["b"]),
    "nothing in terminals": ('start: A t{""}\nA: "a" ("b" | "")\nt{x}: x x', ["a", "ab"], [""]),
    "beside lazy patterns": (
        'start: A\nA: "<" /.*?/ (">" & /./)', ["<>", "<a>"], ["<a>b>", "<a"]
    ),
    "complement of nothing": ('start: A\nA: ~("a" & "b") & "c"', ["c"], ["", "d"]),
    "a side that fits nothing": ('start: A | "c"\nA: "a" & "b"', ["c"], ["a", "b"]),
    "ignored": ('start: "a" "b"\n%ignore /[a-z ]/ & ~/[a-z]/', ["ab", "a  b"], ["axb"]),
    "unicode": ('start: A\nA: /.{1,2}/ & ~/é.?/', ["e", "😀é"], ["é", "éa"]),
}  # fmt: skip


@pytest.mark.parametrize("feature", _FEATURES)
def test_an_addition_means_what_it_means_to_llguidance(feature: str) -> None:
    text, accepted, rejected = _FEATURES[feature]
    machine = _machine(text)
    for example in accepted:
        assert accepted_by(machine, example), example
    for example in rejected:
        assert not accepted_by(machine, example), example
    machine.check()


def test_additions_of_imported_grammars_are_read_in_their_scope() -> None:
    machine = _machine(
        "%import mine.tag\nstart: tag+\nEND: /x/",
        mine='%llguidance {}\ntag[suffix=END]: NAME & ~"if"\nNAME: /[a-z]+/\nEND: ">"',
    )
    assert accepted_by(machine, "in>b>")
    assert not accepted_by(machine, "if>")
    assert not accepted_by(machine, "ax")


_LETTERS = "abc"
_TEXTS = ["".join(each) for n in range(6) for each in itertools.product(_LETTERS, repeat=n)]
_PATTERNS = ["a*", "[ab]+c", "(?:a|bc)*", ".*b", "[^a]{1,3}", "(?:ab?)+", "c|ca|cab", ".?.?"]


@pytest.mark.parametrize("pattern", _PATTERNS)
@pytest.mark.parametrize("end", ["", "b", "[bc]", "ab|b", "c+"])
def test_lazy_and_suffix_end_at_the_first_match_of_re(pattern: str, end: str) -> None:
    attribute = f"suffix=/{end}/" if end else "lazy"
    grammar = f"start: a\na[{attribute}]: /{pattern}/"
    whole = re.compile(f"(?:{pattern})(?:{end})")
    if whole.fullmatch(""):
        with pytest.raises(UnsupportedFeatureError, match="always is"):
            lower_lark(grammar)
        return
    machine = _machine(grammar)
    for text in _TEXTS:
        begins = [text[:n] for n in range(len(text))]
        fits = bool(whole.fullmatch(text)) and not any(map(whole.fullmatch, begins))
        assert accepted_by(machine, text) == fits, text


class _Expression:
    """A random terminal: as it is written, and its texts of at most five letters."""

    def __init__(self, written: str, texts: frozenset[str]) -> None:
        self.written = written
        self.texts = texts


_ALL_TEXTS = frozenset(_TEXTS)


def _random_expression(rng: random.Random, depth: int) -> _Expression:
    """Built by the rules of sets alone, from texts that ``re`` finds."""
    if depth == 0:
        pattern = rng.choice(_PATTERNS)
        return _Expression(
            f"/{pattern}/", frozenset(text for text in _TEXTS if re.fullmatch(pattern, text))
        )
    one, other = (_random_expression(rng, depth - 1) for _ in range(2))
    match rng.randrange(5):
        case 0:
            return _Expression(f"(~{one.written})", _ALL_TEXTS - one.texts)
        case 1:
            return _Expression(f"({one.written} & {other.written})", one.texts & other.texts)
        case 2:
            return _Expression(f"({one.written} | {other.written})", one.texts | other.texts)
        case 3:
            joined = {a + b for a in one.texts for b in other.texts if len(a + b) < 6}
            return _Expression(f"({one.written} {other.written})", frozenset(joined))
    texts, found = {""}, frozenset({""})
    while texts:
        texts = {a + b for a in texts for b in one.texts if len(a + b) < 6} - found
        found |= texts
    return _Expression(f"(({one.written})*)", found)


@pytest.mark.parametrize("seed", range(60))
def test_terminals_are_combined_as_sets_are(seed: int) -> None:
    """Whatever stands around ``&`` and ``~`` in a terminal."""
    made = _random_expression(random.Random(seed), 3)
    try:
        machine = _machine(f"start: A\nA: {made.written}")
    except UnsatisfiableError:
        assert not made.texts
        return
    for text in _TEXTS:
        assert accepted_by(machine, text) == (text in made.texts), (made.written, text)


def test_free_text_goes_without_a_trigger_where_it_says_so() -> None:
    """The example of docs/grammars.md."""
    machine = machine_of(
        Lark(
            """
            start: (head %json {"type": "object"} "</call>")* TEXT
            head[suffix="<call>"]: /(?s:.*)/
            TEXT: ~/(?s:.*<call>.*)/
            """
        )
    )

    def is_accepted(text: str) -> bool:
        state = machine.advance(machine.start, text.encode())
        return state is not None and machine.is_accepting(state)

    for text in (
        "",
        "hello\n",
        "<call",
        "a<call>{}</call>b",
        '<call>{"c":1}</call><call>{}</call>',
    ):
        assert is_accepted(text), text
    for text in ("<call>", "a<call>b", "a<call>{}", "<call>{}</call><call>"):
        assert not is_accepted(text), text


def test_and_binds_tighter_than_or_and_not_tighter_than_repeats() -> None:
    machine = _machine("start: A\nA: /a+/ & /../ | ~/.*/ | ~/[^b]|/{2} & /../")
    assert [text for text in _TEXTS if accepted_by(machine, text)] == ["aa", "bb"]


_ERRORS: dict[str, tuple[str, type[GuidedError], list[str]]] = {
    "options that are not so": (
        '%llguidance {"no_forcing": true}\nstart: "a"',
        UnsupportedFeatureError,
        ["line 1, column 13: the option 'no_forcing' of %llguidance is not supported with the"
         " value true", 'give the request forcing="strict"', "^"],
    ),
    "no ignored text at the beginning": (
        'start: "a"\n%llguidance {"allow_initial_skip": false}',
        UnsupportedFeatureError,
        ["line 2, column 13: the option 'allow_initial_skip'", "may stand at the beginning, too"],
    ),
    "bytes that are no text": (
        '%llguidance {"allow_invalid_utf8": true}', UnsupportedFeatureError, ["answers are text"]
    ),
    "unknown options": (
        '%llguidance {"skip_repetition": "once"}', UnsupportedFeatureError,
        ["'skip_repetition'", '"once"', "leave it out"],
    ),
    "options that are numbers": (
        '%llguidance {"no_forcing": 0}', UnsupportedFeatureError, ["with the value"]
    ),
    "options that are no object": (
        "%llguidance []", UnsupportedFeatureError, ["column 13: %llguidance takes an object"]
    ),
    "no options": (
        '%llguidance\nstart: "a"', InvalidConstraintError,
        ["line 2, column 1: no JSON after %llguidance", "^"],
    ),
    "two statements on a line": (
        '%llguidance {} start: "a"', InvalidConstraintError, ["column 16", "the end of the line"]
    ),
    "stop": (
        'start: a "b"\na[capture, stop="\\n"]: /.*/', UnsupportedFeatureError,
        ["line 2, column 12: stop, text that is written and then taken out", "write suffix="],
    ),
    "max_tokens": (
        "start[max_tokens=10]: /.*/", UnsupportedFeatureError,
        ["line 1, column 7: max_tokens, a bound in tokens", "/(?s:.){0,400}/"],
    ),
    "max_chars": ("start[max_chars=10]: /.*/", UnsupportedFeatureError, ["(?s:.){0,400}"]),
    "temperature": (
        "start[temperature=0.7]: /.*/", UnsupportedFeatureError,
        ["line 1, column 7: temperature", "give the request a temperature"],
    ),
    "unknown attribute": (
        "start[greedy]: /.*/", InvalidConstraintError,
        ["line 1, column 7: there is no attribute 'greedy', only lazy, suffix=, capture and"],
    ),
    "no attribute": ("start[]: /.*/", InvalidConstraintError, ["column 7", "expected lazy"]),
    "no suffix": ("start[suffix]: /.*/", InvalidConstraintError, ["column 13", "expected ="]),
    "an empty suffix": ('start[suffix=""]: /.*/', InvalidConstraintError, ["the suffix is empty"]),
    "an undefined suffix": ("start[suffix=A]: /.*/", InvalidConstraintError, ["'A' is not"]),
    "a lazy rule that may be empty": (
        'start: a "x"\na[lazy]: /[0-9]*/', UnsupportedFeatureError,
        ["line 2, column 2: a lazy rule that may be empty always is", "suffix="],
    ),
    "an attribute twice": (
        'start[suffix="a", suffix="b"]: /.*/', InvalidConstraintError, ["column 19: suffix"]
    ),
    "open attributes": ("start[lazy: /.*/", InvalidConstraintError, ["column 11", "expected ]"]),
    "attributes of a terminal": (
        "start: A\nA[lazy]: /.*/", InvalidConstraintError,
        ["line 2, column 2: attributes are for rules, and 'A' is a terminal", "small letters"],
    ),
    "a lazy rule of rules": (
        'start[lazy]: a\na: "b"', InvalidConstraintError,
        ["line 1, column 14: the rule 'a' stands in a terminal", "in capital letters"],
    ),
    "a lazy special token": (
        "start[lazy]: <a>", UnsupportedFeatureError, ["column 14", "special token <a>"]
    ),
    "a lazy rule that nobody uses": (
        'start: "a"\nb[lazy]: c\nc: "c"', InvalidConstraintError, ["line 2, column 10", "the rule"]
    ),
    "common texts of rules": (
        'start: /a/ & /b/', UnsupportedFeatureError,
        ["line 1, column 12: & stands in a rule", "a terminal of its own, in capital letters"],
    ),
    "complement in a rule": ('start: ~"a"', UnsupportedFeatureError, ["column 8: ~ stands"]),
    "nothing in common": ('start: A\nA: "a" & "b"', UnsatisfiableError, ["no text"]),
    "an empty side": ('start: A\nA: "a" & | "b"', InvalidConstraintError, ["column 8: a side"]),
    "nothing to exclude": ("start: A\nA: ~", InvalidConstraintError, ["column 5", "is excluded"]),
    "look-around beside and": (
        "start: A\nA: /a(?=b)/ & /a/", UnsupportedFeatureError,
        ["line 2, column 13: look-around at the edge of what &"],
    ),
    "look-around before a suffix": (
        'start: a\na[suffix="b"]: /(?<!c)a/', UnsupportedFeatureError, ["line 2, column 2: look-ar"]
    ),
    "turned bounds": ('start: "a"{3,2}', InvalidConstraintError, ["column 12", "3..2"]),
    "open bounds": ('start: "a"{3', InvalidConstraintError, ["expected }"]),
    "no bounds": ('start: "a"{}', InvalidConstraintError, ["column 11: unexpected {"]),
    "many complements": (
        'start: A\nA: ' + "~" * 200 + '"a"', LimitExceededError, ["nests deeper than 100"]
    ),
    "pieces of a text": (
        'start: A\nA: %regex {"substring_words": "a b"}', UnsupportedFeatureError,
        ["line 2, column 4: %regex, the pieces of a text", "%declare a terminal"],
    ),
    "a grammar inside": (
        'start: %lark {\n start: "a" }', UnsupportedFeatureError,
        ["line 1, column 8: %lark, a grammar inside", "holes="],
    ),
    "another grammar": ("start: @sub", UnsupportedFeatureError, ["column 8: @", "holes="]),
    "parametric rules": (
        'start: p::0x0\np::_: "a" p::set_bit(0) %if bit_clear(0)', UnsupportedFeatureError,
        ["line 1, column 9: parametric rules", "write a rule for each case"],
    ),
    "conditions": ('start: "a" %if true', UnsupportedFeatureError, ["column 12: parametric"]),
    "a token by its number": (
        'start: "a" <[128010]>', UnsupportedFeatureError,
        ["line 1, column 12: <[128010]> is a token by its number", "such as <|python_tag|>"],
    ),
    "any token": (
        "start: <[*]>",
        UnsupportedFeatureError,
        ["<[*]>, any token, is not", "write /(?s:.)*/"],
    ),
    "a dash at the end": ('start: a-\na: "a"', InvalidConstraintError, ["column 9: '-' means"]),
    "a dash between cases": ("start: A-b", InvalidConstraintError, ["column 9: '-' means nothing"]),
    "a terminal of nothing": ('start: A\nA: ""', InvalidConstraintError, ["'A' is empty"]),
    "nothing in any case": ('start: ""i', InvalidConstraintError, ["an empty literal"]),
    "a range from nothing": ('start: "".."b"', InvalidConstraintError, ["no range"]),
}  # fmt: skip


@pytest.mark.parametrize("name", _ERRORS)
def test_a_refusal_says_what_where_and_what_to_write(name: str) -> None:
    text, kind, parts = _ERRORS[name]
    with pytest.raises(kind) as caught:
        _machine(text)
    assert type(caught.value) is kind
    for part in parts:
        assert part in str(caught.value)
