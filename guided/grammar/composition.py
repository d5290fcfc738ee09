"""Lowers constraints, and compositions of constraints, to one context-free grammar.

JSON schemas are not context-free: each is a hole of the grammar, which another recogniser fills.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from guided.errors import RequestError, UnsupportedFeatureError, naming
from guided.grammar import context_free as cf
from guided.grammar.ebnf import lower_ebnf
from guided.grammar.escaped import escape_grammar
from guided.grammar.lark import has_inline_schema, lower_lark
from guided.grammar.one_terminal import lower_choice, lower_regex
from guided.regular.codepoints import ANY
from guided.regular.expression import (
    ANYTHING,
    EMPTY_TEXT,
    Alternate,
    Chars,
    Concat,
    Look,
    Regular,
    literal,
    texts_up_to,
    texts_without,
)
from guided.runtime.work_budget import spend, with_pauses
from guided.spec import Choice, Ebnf, JsonSchema, Lark, Regex, Stored, Structure
from guided.spec.bare_string import BareString
from guided.spec.call_arguments import CallArguments
from guided.spec.composition import AnyOf, Repeat, Sequence, Template, Text
from guided.spec.input_text import BareText, EscapedText
from guided.spec.special_token import SpecialToken
from guided.spec.tagged import Calls, FreeText, Tagged, Until

__all__ = [
    "Composition",
    "FilledHole",
    "drop_empty_holes",
    "lower_composition",
    "required_holes",
]

_WHOLE = "whole"
_HOLE_WORK: Final = 1_000
"""Units of work to build a recogniser that fills a hole, however small."""
_LETTER_WORK: Final = 20
"""Units of work per letter of all triggers, for the automaton of each trigger."""


@dataclass(frozen=True, slots=True)
class FilledHole:
    """What fills a hole: the documents of a schema, or its strings without quotes."""

    filling: JsonSchema | BareString
    path: tuple[str, ...]
    """Where it first occurs, for errors: the enclosing parts of the constraint, outermost first."""


@dataclass(frozen=True, slots=True, eq=False)
class InputTexts:
    """The texts of an input of a custom tool."""

    body: cf.Body
    any_text: cf.Body
    """Its texts with those that the format of calls forbids."""
    rare_bytes: frozenset[int] = frozenset()
    """A byte of each part that the format forbids: a text without these bytes is allowed."""


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """A grammar, and what fills its holes: ``holes[n]`` fills ``Hole(n)``."""

    grammar: cf.ContextFreeGrammar
    holes: tuple[FilledHole, ...]
    inputs: Mapping[str, InputTexts]
    """Each input of a custom tool, by the field it came from."""
    arguments: Mapping[str, cf.Body]
    """The arguments of each function that may be called, by the field of its parameters."""

    def grammar_of(self, body: cf.Body) -> cf.ContextFreeGrammar:
        """Return the grammar of an input of a custom tool on its own, by one of its bodies."""
        return cf.ContextFreeGrammar({**self.grammar.rules, _WHOLE: body}, _WHOLE)

    @property
    def special(self) -> frozenset[str]:
        """The names of the special tokens in its texts."""
        strings = [hole.filling for hole in self.holes if isinstance(hole.filling, BareString)]
        ends = [end for string in strings for end in (string.begin, string.end)]
        names = {end.name for end in ends if isinstance(end, SpecialToken)}
        return cf.special_names(self.grammar) | names


def lower_composition(constraint: Structure) -> Composition:
    """Return the grammar of a constraint, and what fills its holes.

    A grammar without holes, a pattern or a choice, on its own, is what its front end returns: rules
    keep their names, what is ignored stays separate, and look-arounds see the whole text.
    ``_Composer`` lowers all other constraints; it keeps each grammar separate from what surrounds
    it. A ``JsonSchema`` on its own would become a grammar of one hole, but ``constraint.machine``
    builds its recogniser without a grammar. Not for ``AfterThoughts`` and ``Continued``, which
    ``ConstraintCompiler.start`` takes apart. Recursive, as deep as the parts nest.

    Raises InvalidConstraintError, UnsupportedFeatureError or LimitExceededError, which name the
    part if there are parts, and RequestError for a ``Stored`` constraint, which its server
    resolves.
    """
    match constraint:
        case Lark(text, start, imports, holes):
            if not holes and not any(map(has_inline_schema, (text, *dict(imports).values()))):
                return Composition(lower_lark(text, start, dict(imports)), (), {}, {})
        case Ebnf() | Regex() | Choice():
            return Composition(_lower_single(constraint), (), {}, {})
    return _Composer().lower_whole(constraint)


def _lower_single(constraint: Structure) -> cf.ContextFreeGrammar:
    """Return the grammar of a constraint without parts that is no ``Lark``."""
    match constraint:
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


def _lower_input(text: BareText | EscapedText) -> cf.ContextFreeGrammar:
    """Return the grammar of the input of a tool, escaped if it stands in a string of JSON.

    It has neither holes nor special tokens: an input is a text, of which what is forbidden or
    escaped must be known. Errors name its field.
    """
    constraint = text.grammar
    with naming((text.field,), field=text.field):
        if isinstance(constraint, Regex):
            grammar = lower_regex(constraint)
        else:
            if constraint.holes:
                raise UnsupportedFeatureError("a hole in the input of a tool, which is text")
            grammar = lower_lark(constraint.text, constraint.start, dict(constraint.imports))
        if names := cf.special_names(grammar):
            raise UnsupportedFeatureError(
                f"the special token {min(names)!r} in the input of a tool, which is text",
                hint="write it in quotes where its characters are meant",
            )
        return escape_grammar(grammar) if isinstance(text, EscapedText) else grammar


class _Composer:
    """Lowers the parts of one composition and collects their rules and holes.

    Each grammar's rules get its number as a prefix (``0:start``), so that names never clash.
    """

    def __init__(self) -> None:
        self.rules: dict[str, cf.Body] = {}
        self.holes: list[FilledHole] = []
        """By the number of the hole."""
        self._hole_by_digest: dict[str, int] = {}
        """The number of each hole, by the digest of what fills it."""
        self._body_by_digest: dict[str, cf.Body] = {}
        """The body of each part that is a grammar, by its digest."""
        self._inputs: dict[str, InputTexts] = {}
        """Each input of a custom tool, by the field it came from."""
        self._arguments: dict[str, cf.Body] = {}
        """The arguments of each function, by the field of its parameters."""

    def lower_whole(self, constraint: Structure) -> Composition:
        """Return the composition of a constraint; raises as ``lower_composition`` does."""
        whole = self.lower_part(constraint, ())
        grammar = cf.ContextFreeGrammar(self.rules | {_WHOLE: whole}, _WHOLE)
        return Composition(grammar, tuple(self.holes), self._inputs, self._arguments)

    def lower_part(self, constraint: Structure, path: tuple[str, ...]) -> cf.Body:
        """Return the body of a part of the composition; ``path`` names the part in errors.

        Equal grammars are lowered once, and equal schemas share a hole, with the path of the
        first. Recursive, as deep as constraints nest. Raises as ``lower_composition`` does.
        """
        match constraint:
            case Text(text):
                return cf.Terminal(literal(text))
            case Sequence(parts):
                return cf.Concatenation(self._lower_parts(parts, "part", path))
            case AnyOf(alternatives):
                return cf.Alternation(self._lower_parts(alternatives, "alternative", path))
            case Repeat(part, least, most):
                return cf.Repetition(
                    self.lower_part(part, (*path, "the repeated part")), least, most
                )
            case Template():
                return self._lower_template(constraint, path)
            case FreeText(without):
                return _free_text(without)
            case Until(ends):
                return _separate_terminal(texts_up_to(_any_of(ends), _any_of(ends)))
            case Tagged():
                return self._lower_tagged(constraint, path)
            case SpecialToken(name):
                return cf.Special(name)
            case JsonSchema() | BareString():
                number = self._hole_by_digest.setdefault(constraint.digest(), len(self.holes))
                if number == len(self.holes):
                    spend(_HOLE_WORK)
                    self.holes.append(FilledHole(constraint, path))
                return cf.Hole(number)
            case CallArguments(arguments, field):
                self._arguments[field] = self.lower_part(arguments, path)
                return self._arguments[field]
            case BareText(field=field, end=end, without=without):
                any_text = self._lower_grammar(constraint, path)
                body = _without(any_text, end, without)
                rare = frozenset(
                    [(each.strip() or each).encode()[0] for each in (end, without) if each]
                )
                self._inputs[field] = InputTexts(body, any_text, rare)
                return body
            case EscapedText(field=field):
                body = self._lower_grammar(constraint, path)
                self._inputs[field] = InputTexts(body, body)
                return body
        return self._lower_grammar(constraint, path)

    def _lower_grammar(self, constraint: Structure, path: tuple[str, ...]) -> cf.Body:
        """Return the body of a part that has a front end, whose rules are added."""
        digest = constraint.digest()
        if digest not in self._body_by_digest:
            prefix = f"{len(self._body_by_digest)}:"
            # Reserves the number before the parts inside take theirs; no part contains itself.
            self._body_by_digest[digest] = cf.Concatenation(())
            if isinstance(constraint, Lark):
                grammar = self._lower_lark(constraint, prefix, path)
            elif isinstance(constraint, BareText | EscapedText):
                grammar = _lower_input(constraint)
            else:
                with naming(path):
                    grammar = _lower_single(constraint)
            self._body_by_digest[digest] = self._add_grammar(grammar, prefix)
        return self._body_by_digest[digest]

    def _lower_lark(self, lark: Lark, prefix: str, path: tuple[str, ...]) -> cf.ContextFreeGrammar:
        """Return the grammar of a ``Lark``, and add a rule for each of its holes and schemas.

        The rule is called wherever the hole is used, so that what fills it is not copied. No name
        in a grammar contains the ``%`` of the rule's name.
        """

        def fill(name: str, filling: Structure, what: str) -> cf.Body:
            rule = f"{prefix}%{name}"
            self.rules[rule] = self.lower_part(filling, (*path, what))
            return cf.Call(rule)

        schemas: dict[str, cf.Body] = {}

        def fill_schema(text: str, place: str) -> cf.Body:
            if text not in schemas:  # equal ones share a rule, with the place of the first
                schema = JsonSchema(text, lark.json_options)
                schemas[text] = fill(f"json {len(schemas)}", schema, place)
            return schemas[text]

        holes = {name: fill(name, filling, f"hole {name!r}") for name, filling in lark.holes}
        with naming(path):
            return lower_lark(lark.text, lark.start, dict(lark.imports), holes, fill_schema)

    def _lower_parts(
        self, parts: tuple[Structure, ...], what: str, path: tuple[str, ...]
    ) -> tuple[cf.Body, ...]:
        """Return the bodies of parts; errors call them ``what`` and their number, from 1 on."""
        return tuple(
            self.lower_part(part, (*path, f"{what} {number}"))
            for number, part in enumerate(with_pauses(parts), start=1)
        )

    def _lower_template(self, template: Template, path: tuple[str, ...]) -> cf.Body:
        """Return the fixed texts of a template with what fills its holes between them.

        A hole that occurs several times is lowered once.
        """
        filled = {
            name: self.lower_part(part, (*path, f"hole {name!r}"))
            for name, part in with_pauses(template.holes)
        }
        parts: list[cf.Body] = []
        for fixed, name in with_pauses(template.pieces()):
            parts.append(cf.Terminal(literal(fixed)))
            if name is not None:
                parts.append(filled[name])
        return cf.Concatenation(tuple(parts))

    def _lower_tagged(self, tagged: Tagged, path: tuple[str, ...]) -> cf.Body:
        """Return free text with tagged calls: ``(text up to a trigger, rest of the call)* text``.

        Free text contains no trigger, so every trigger begins a call. Tags with the same trigger
        are distinguished by the rest of ``tag.begin`` after it.
        """
        free = _free_text(tagged.triggers)
        any_trigger = _any_of(tagged.triggers)
        if tagged.calls is Calls.NONE:
            return free
        bodies = [
            self.lower_part(tag.body, (*path, f"tag {tag.begin!r}"))
            for tag in with_pauses(tagged.tags)
        ]
        options: list[cf.Body] = []
        work = _LETTER_WORK * sum(map(len, tagged.triggers))
        for trigger, numbers in tagged.by_trigger().items():
            # The automaton of each trigger recognises all triggers.
            spend(work)
            tags = [(tagged.tags[number], bodies[number]) for number in numbers]
            calls = [_enclose(tag.begin[len(trigger) :], body, tag.end) for tag, body in tags]
            until = cf.Terminal(texts_up_to(literal(trigger), any_trigger))
            options.append(cf.Concatenation((until, cf.Alternation(tuple(calls)))))
        least = 1 if tagged.calls is Calls.REQUIRED else 0
        most = None if tagged.parallel else 1
        return cf.Concatenation((cf.Repetition(cf.Alternation(tuple(options)), least, most), free))

    def _add_grammar(self, grammar: cf.ContextFreeGrammar, prefix: str) -> cf.Body:
        """Add a grammar's rules under names with a prefix; returns the body of its texts.

        What the grammar ignores is inserted before each terminal and at the end, as other parts of
        the constraint do not ignore it. ``Alone`` keeps its look-arounds from seeing the text of
        other parts; no other place of a composition makes terminals with look-arounds.
        """
        ignored = (
            cf.Repetition(cf.Alternation(grammar.ignored), 0, None) if grammar.ignored else None
        )
        for name, body in grammar.rules.items():
            self.rules[prefix + name] = _adapt_body(body, prefix, grammar.rules.keys(), ignored)
        start = cf.Call(prefix + grammar.start)
        whole = start if ignored is None else cf.Concatenation((start, ignored))
        return cf.Alone(whole) if _has_lookaround(grammar) else whole


def _free_text(without: tuple[str, ...]) -> cf.Body:
    """Return a terminal of the texts that contain none of ``without``."""
    return _separate_terminal(texts_without(_any_of(without)) if without else ANYTHING)


def _any_of(texts: tuple[str, ...]) -> Regular:
    return Alternate(tuple(map(literal, texts)))


def _separate_terminal(regular: Regular) -> cf.Body:
    """Return a terminal that is not merged with its neighbours.

    Terminals that are options of one alternation become one expression; the concatenation around
    this one prevents that, as an ``Intersection`` must not be part of another expression.
    """
    return cf.Concatenation((cf.Terminal(regular),))


def _without(item: cf.Body, end: str, without: str) -> cf.Body:
    """Return the texts of ``item`` with ``end`` after them and no earlier, and no ``without``.

    Both conditions are look-aheads at the beginning of a text that is ``Alone``.
    """
    forbidden: list[Regular] = []
    if end:
        forbidden.append(Concat((ANYTHING, literal(end), Chars(ANY))))
    if without:
        forbidden.append(Concat((ANYTHING, literal(without))))
    looks = tuple([Look(each, negative=True) for each in forbidden])
    begin = cf.Terminal(EMPTY_TEXT, after=looks)
    return cf.Alone(cf.Concatenation((begin, item, cf.Terminal(literal(end)))))


def _enclose(begin: str, body: cf.Body, end: str) -> cf.Body:
    return cf.Concatenation((cf.Terminal(literal(begin)), body, cf.Terminal(literal(end))))


def _has_lookaround(grammar: cf.ContextFreeGrammar) -> bool:
    """Return whether a terminal has a look-around at its edges."""
    worklist: list[cf.Body] = [*grammar.rules.values(), *grammar.ignored]
    for part in worklist:
        if isinstance(part, cf.Terminal) and (part.before or part.after):
            return True
        worklist += cf.inner_bodies(part)
    return False


def _adapt_body(
    body: cf.Body, prefix: str, own: Collection[str], ignored: cf.Body | None
) -> cf.Body:
    """Return a body with a prefix before the names of its rules, and ``ignored`` before terminals.

    ``own`` are the names of the grammar's rules; all other calls are of rules that fill its holes,
    and count as terminals, like holes and special tokens. ``ignored`` is ``None`` if the grammar
    ignores nothing.
    """

    def inner(part: cf.Body) -> cf.Body:
        return _adapt_body(part, prefix, own, ignored)

    match body:
        case cf.Call(rule) if rule in own:
            return cf.Call(prefix + rule)
        case cf.Terminal() | cf.Hole() | cf.Special() | cf.Call():
            return body if ignored is None else cf.Concatenation((ignored, body))
        case cf.Alternation(options):
            terminals = tuple(each for each in options if isinstance(each, cf.Terminal))
            others = [inner(each) for each in options if not isinstance(each, cf.Terminal)]
            if not terminals:
                return cf.Alternation(tuple(others))
            # Terminals are grouped, so that ``ignored`` stands before all of them once.
            group = cf.Alternation(terminals)
            first = group if ignored is None else cf.Concatenation((ignored, group))
            return cf.Alternation((first, *others))
    return cf.map_inner(body, inner)


def required_holes(body: cf.Body) -> Iterator[cf.Hole]:
    """Yield holes that every text of a body fills, though not those inside of rules."""
    match body:
        case cf.Hole():
            yield body
        case cf.Concatenation(parts):
            for part in parts:
                yield from required_holes(part)


def drop_empty_holes(
    grammar: cf.ContextFreeGrammar, empty: Collection[int]
) -> cf.ContextFreeGrammar:
    """Return the grammar without the texts that need a hole that has no text.

    ``empty`` has the numbers of these holes. The other holes are renumbered from 0 in the same
    order. Rules may be left without a text.
    """
    if not empty:
        return grammar
    ordered = sorted(empty)
    rules = {name: _drop_empty(body, ordered) for name, body in grammar.rules.items()}
    return cf.ContextFreeGrammar(rules, grammar.start, grammar.ignored)


def _drop_empty(body: cf.Body, empty: list[int]) -> cf.Body:
    """Return a part of the grammar without the holes that are ``empty``, in ascending order."""
    spend(1)
    if not isinstance(body, cf.Hole):
        return cf.map_inner(body, lambda part: _drop_empty(part, empty))
    num_before = bisect_left(empty, body.number)
    if body.number in empty[num_before : num_before + 1]:
        return cf.Alternation(())
    return cf.Hole(body.number - num_before)
