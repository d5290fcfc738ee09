"""Constraints made of constraints as one grammar, with holes for what is not context-free."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from guided.errors import RequestError, naming
from guided.grammar import context_free as cf
from guided.grammar.ebnf import lower_ebnf
from guided.grammar.lark import inline_names, lower_lark, without_inline_json
from guided.grammar.one_terminal import lower_choice, lower_regex
from guided.regular.codepoints import ANY
from guided.regular.expression import (
    ANYTHING,
    Alternate,
    Chars,
    Concat,
    Intersection,
    Regular,
    literal,
)
from guided.runtime.fuel import spend, with_pauses
from guided.spec import Choice, Ebnf, JsonSchema, Lark, Regex, Stored, Structure
from guided.spec.bare_string import BareString
from guided.spec.composition import AnyOf, Repeat, Sequence, Template, Text
from guided.spec.special_token import SpecialToken
from guided.spec.tagged import Calls, FreeText, Tagged, Until

__all__ = ["Composition", "FilledHole", "lower_composition", "without_holes"]

_WHOLE = "whole"
_SCHEMA_WORK: Final = 1_000
"""Units of work for a recogniser that fills a hole, however small."""
_LETTER_WORK: Final = 20
"""Units of work per letter of a trigger, in the automaton of each trigger."""


@dataclass(frozen=True, slots=True)
class FilledHole:
    """What fills a hole: the documents of a schema, or its strings as they are."""

    filling: JsonSchema | BareString
    path: tuple[str, ...]
    """Where it first stands: the parts of the constraint around it, from the outside in."""


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """A grammar, and what fills its holes, by number."""

    grammar: cf.ContextFreeGrammar
    holes: tuple[FilledHole, ...]

    @property
    def special(self) -> frozenset[str]:
        """The names of the special tokens in its texts."""
        strings = [hole.filling for hole in self.holes if isinstance(hole.filling, BareString)]
        ends = [end for string in strings for end in (string.begin, string.end)]
        names = {end.name for end in ends if isinstance(end, SpecialToken)}
        return cf.special_names(self.grammar) | names


def lower_composition(constraint: Structure) -> Composition:
    """Return the grammar of any constraint but a schema alone.

    For a ``JsonSchema`` alone ``constraint.machine`` builds a recogniser without a grammar; here it
    would become a grammar of one hole. Inside other constraints schemas are holes.

    There are two ways. A constraint that is only one grammar becomes what its front end makes of
    it: its rules keep their names, what it ignores stays separate, and look-around at the edges of
    its terminals sees the whole text. ``_Composer`` puts all others together; there each grammar
    must be kept separate from what surrounds it.

    Raises InvalidConstraintError, UnsupportedFeatureError or LimitExceededError, which name the
    part.
    """
    match constraint:
        case Lark() if not _has_holes(constraint):
            return Composition(_lowered(constraint), ())
        case Ebnf() | Regex() | Choice():
            return Composition(_lowered(constraint), ())
    composer = _Composer()
    composer.rules[_WHOLE] = composer.body(constraint, ())
    grammar = cf.ContextFreeGrammar(composer.rules, _WHOLE)
    return Composition(grammar, tuple(composer.holes))


def _lowered(constraint: Structure) -> cf.ContextFreeGrammar:
    """Return the grammar of a constraint that is one text; a ``Lark`` must have no holes."""
    match constraint:
        case Lark(text, start, imports):
            return lower_lark(text, start, dict(imports))
        case Ebnf(text, root):
            return lower_ebnf(text, root)
        case Regex():
            return lower_regex(constraint)
        case Choice(options):
            return lower_choice(options)
        case Stored(constraint_id):
            raise RequestError(
                f"the stored constraint {constraint_id!r} is known to the server that keeps it",
                field="constraint",
                hint="ask that server, and let it stand for the whole constraint",
            )
    raise AssertionError(f"{constraint!r} has no front end")


class _Composer:
    """Gathers the rules and the holes of all parts.

    Names of rules begin with the number of their grammar (``0:start``), so those of different
    grammars never coincide.
    """

    def __init__(self) -> None:
        self.rules: dict[str, cf.Body] = {}
        self.holes: list[FilledHole] = []
        """By the number of the hole."""
        self._numbers: dict[str, int] = {}
        """The number of a hole by the digest of what fills it."""
        self._starts: dict[str, cf.Body] = {}
        """The body of the texts of a part that is a grammar, by the digest of the part."""

    def body(self, constraint: Structure, path: tuple[str, ...]) -> cf.Body:
        """Return the body of a part; errors name the part by ``path``, from the outside in.

        Equal grammars are lowered once for all their places, and equal schemas fill one hole:
        ``path`` is then that of the first. Recursive, as deep as constraints nest. Raises what
        ``lower_composition`` raises.
        """
        match constraint:
            case Text(text):
                return cf.Terminal(literal(text))
            case Sequence(parts):
                return cf.Concatenation(self._bodies(parts, "part", path))
            case AnyOf(alternatives):
                return cf.Alternation(self._bodies(alternatives, "alternative", path))
            case Repeat(part, least, most):
                return cf.Repetition(self.body(part, (*path, "the repeated part")), least, most)
            case Template():
                return self._template(constraint, path)
            case FreeText(without):
                return _terminal(_free(without))
            case Until(ends):
                return _terminal(_until(_any(ends), _any(ends)))
            case Tagged():
                return self._tagged(constraint, path)
            case SpecialToken(name):
                return cf.Special(name)
            case JsonSchema() | BareString():
                number = self._numbers.setdefault(constraint.digest(), len(self.holes))
                if number == len(self.holes):
                    spend(_SCHEMA_WORK)
                    self.holes.append(FilledHole(constraint, path))
                return cf.Hole(number)
        digest = constraint.digest()
        if digest not in self._starts:
            prefix = f"{len(self._starts)}:"
            # The number is taken before the parts inside take theirs; no part contains itself.
            self._starts[digest] = cf.Concatenation(())
            if isinstance(constraint, Lark) and _has_holes(constraint, path):
                grammar = self._lark(constraint, prefix, path)
            else:
                with naming(path):
                    grammar = _lowered(constraint)
            self._starts[digest] = self._taken_in(grammar, prefix)
        return self._starts[digest]

    def _lark(self, lark: Lark, prefix: str, path: tuple[str, ...]) -> cf.ContextFreeGrammar:
        """Return the grammar of a ``Lark`` with holes; what fills them becomes rules of the whole.

        Each filling is a separate rule, called where the hole stands, so that it is written out
        once however often the hole is used. The ``%`` in its name occurs in no name of a grammar.
        """
        with naming(path):
            text, imports, fillings = _filled(lark)
        holes: dict[str, cf.Body] = {}
        for name, (what, filling) in fillings.items():
            rule = f"{prefix}%{name}"
            self.rules[rule] = self.body(filling, (*path, what))
            holes[name] = cf.Call(rule)
        with naming(path):
            return lower_lark(text, lark.start, imports, holes)

    def _bodies(
        self, parts: tuple[Structure, ...], what: str, path: tuple[str, ...]
    ) -> tuple[cf.Body, ...]:
        """Return the bodies of parts, which errors call ``what`` with their number, from 1 on."""
        return tuple(
            self.body(part, (*path, f"{what} {number}"))
            for number, part in enumerate(with_pauses(parts), start=1)
        )

    def _template(self, template: Template, path: tuple[str, ...]) -> cf.Body:
        """Return the fixed texts of a template with what fills its holes between them.

        What fills a hole that stands in several places is made once, and stands in each of them.
        """
        filled = {
            name: self.body(part, (*path, f"hole {name!r}"))
            for name, part in with_pauses(template.holes)
        }
        parts: list[cf.Body] = []
        for fixed, name in with_pauses(template.pieces()):
            parts.append(cf.Terminal(literal(fixed)))
            if name is not None:
                parts.append(filled[name])
        return cf.Concatenation(tuple(parts))

    def _tagged(self, tagged: Tagged, path: tuple[str, ...]) -> cf.Body:
        """Free text with calls in it: ``(text up to a trigger, rest of the call)* free text``.

        ``free`` contains no trigger, so a text has only one parse: every trigger begins a call.
        Tags that begin with the same trigger are distinguished by the rest of ``tag.begin`` after
        it.
        """
        free, among = _terminal(_free(tagged.triggers)), _any(tagged.triggers)
        if tagged.calls is Calls.NONE:
            return free
        bodies = [
            self.body(tag.body, (*path, f"tag {tag.begin!r}")) for tag in with_pauses(tagged.tags)
        ]
        options: list[cf.Body] = []
        work = _LETTER_WORK * sum(map(len, tagged.triggers))
        for trigger, numbers in tagged.by_trigger().items():
            # Each has a separate automaton, which includes all triggers.
            spend(work)
            tags = [(tagged.tags[number], bodies[number]) for number in numbers]
            begun = [_between(tag.begin[len(trigger) :], body, tag.end) for tag, body in tags]
            until = cf.Terminal(_until(literal(trigger), among))
            options.append(cf.Concatenation((until, cf.Alternation(tuple(begun)))))
        least = 1 if tagged.calls is Calls.REQUIRED else 0
        most = None if tagged.parallel else 1
        return cf.Concatenation((cf.Repetition(cf.Alternation(tuple(options)), least, most), free))

    def _taken_in(self, grammar: cf.ContextFreeGrammar, prefix: str) -> cf.Body:
        """Add a grammar's rules under names with a prefix; returns the body of its texts.

        What the grammar ignores is spelled out before each terminal and at the end (``blank``),
        since the other parts of the constraint do not ignore it. ``Alone`` keeps look-around at its
        edges from seeing text of other parts.
        """
        blank = cf.Repetition(cf.Alternation(grammar.ignored), 0, None) if grammar.ignored else None
        for name, body in grammar.rules.items():
            self.rules[prefix + name] = _renamed(body, prefix, grammar.rules.keys(), blank)
        start = cf.Call(prefix + grammar.start)
        whole = start if blank is None else cf.Concatenation((start, blank))
        return cf.Alone(whole) if _looks_around(grammar) else whole


def _free(without: tuple[str, ...]) -> Regular:
    """Return the texts that contain none of the texts ``without``."""
    if not without:
        return ANYTHING
    return Intersection(ANYTHING, Concat((ANYTHING, _any(without), ANYTHING)), negative=True)


def _until(end: Regular, among: Regular) -> Regular:
    """Return the texts that end with a match of ``end`` and have no earlier match of ``among``.

    A match is earlier if at least one character follows it. ``end`` is one of the options of
    ``among``.
    """
    before = Concat((ANYTHING, among, Chars(ANY), ANYTHING))
    return Intersection(Concat((ANYTHING, end)), before, negative=True)


def _any(texts: tuple[str, ...]) -> Regular:
    return Alternate(tuple(map(literal, texts)))


def _terminal(regular: Regular) -> cf.Body:
    """Return a terminal in a concatenation of its own.

    Terminals side by side in an alternation are joined to one expression. ``Intersection`` is about whole
    texts and must not stand inside another expression, so the concatenation prevents that here.
    """
    return cf.Concatenation((cf.Terminal(regular),))


def _between(begin: str, body: cf.Body, end: str) -> cf.Body:
    return cf.Concatenation((cf.Terminal(literal(begin)), body, cf.Terminal(literal(end))))


def _filled(lark: Lark) -> tuple[str, dict[str, str], dict[str, tuple[str, Structure]]]:
    """Take the schemas out of a grammar and its imports; also lists all that fills its holes.

    Returns the text without ``%json``; the imports likewise, by dotted name; and by the name of
    each hole how errors call it and the constraint that fills it. These holes are the given
    ``lark.holes``, and one for each schema, which is called ``JSON_…``. Raises
    InvalidConstraintError for what is not JSON, and LimitExceededError for a text that is too long.
    """
    fillings: dict[str, tuple[str, Structure]] = {
        name: (f"hole {name!r}", filling) for name, filling in lark.holes
    }
    # The grammar itself goes through the same loop as its imports, under the name None.
    texts: dict[str | None, str] = {None: lark.text, **dict(lark.imports)}
    # Imports share the names of declared terminals with the grammar, so each schema's name must
    # differ from all names in all texts, and from those given to schemas of earlier texts.
    taken = inline_names(texts.values())
    for file, text in texts.items():
        texts[file], schemas = without_inline_json(text, taken)
        taken.update(schemas)
        for number, (name, schema) in enumerate(schemas.items(), start=1):
            path = f"%json {number}" if file is None else f"%json {number} of {file!r}"
            fillings[name] = (path, JsonSchema(schema))
    text = texts.pop(None)
    return text, {name: each for name, each in texts.items() if name is not None}, fillings


def _has_holes(lark: Lark, path: tuple[str, ...] = ()) -> bool:
    """Return whether a grammar contains other constraints; raises as ``_filled``, with ``path``."""
    with naming(path):
        return bool(_filled(lark)[2])


def _looks_around(grammar: cf.ContextFreeGrammar) -> bool:
    """Return whether a terminal looks at what stands around it."""
    waiting: list[cf.Body] = [*grammar.rules.values(), *grammar.ignored]
    for part in waiting:
        if isinstance(part, cf.Terminal) and (part.before or part.after):
            return True
        waiting += cf.inner_bodies(part)
    return False


def _renamed(body: cf.Body, prefix: str, own: Collection[str], blank: cf.Body | None) -> cf.Body:
    """Return a body with the prefix before its own rules, and ``blank`` before each terminal.

    ``own`` are the names of the grammar's rules; calls of others are of what fills its holes.
    ``blank`` is ``None`` if nothing is ignored. Holes, special tokens and calls of other rules
    count as terminals: blank stands before them.
    """

    def inner(part: cf.Body) -> cf.Body:
        return _renamed(part, prefix, own, blank)

    match body:
        case cf.Call(rule) if rule in own:
            return cf.Call(prefix + rule)
        case cf.Terminal() | cf.Hole() | cf.Special() | cf.Call():
            return body if blank is None else cf.Concatenation((blank, body))
        case cf.Alternation(options):
            terminals = tuple(each for each in options if isinstance(each, cf.Terminal))
            others = [inner(each) for each in options if not isinstance(each, cf.Terminal)]
            if not terminals:
                return cf.Alternation(tuple(others))
            # Terminals side by side are one, so that what is ignored stands before them once.
            together = cf.Alternation(terminals)
            first = together if blank is None else cf.Concatenation((blank, together))
            return cf.Alternation((first, *others))
    return cf.with_inner(body, inner)


def without_holes(grammar: cf.ContextFreeGrammar, empty: Collection[int]) -> cf.ContextFreeGrammar:
    """Return the grammar without the texts that need an ``empty`` hole.

    ``empty`` are numbers of holes. The remaining holes are renumbered from 0 in the same order, so
    what fills them keeps its order too. Rules may be left without a text.
    """
    if not empty:
        return grammar

    def inner(body: cf.Body) -> cf.Body:
        if not isinstance(body, cf.Hole):
            return cf.with_inner(body, inner)
        if body.number in empty:
            return cf.Alternation(())
        return cf.Hole(body.number - sum(other < body.number for other in empty))

    rules = {name: inner(body) for name, body in grammar.rules.items()}
    return cf.ContextFreeGrammar(rules, grammar.start, grammar.ignored)
