"""Compilation of constraints for a vocabulary, with a cache."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from guided.constraint.compile_counts import CompileCounts
from guided.constraint.compiled_cache import CompiledCache
from guided.constraint.continued import start_continued, start_free
from guided.constraint.machine import build_machine
from guided.constraint.special_tokens import check_special_tokens
from guided.errors import (
    ConstraintError,
    LimitExceededError,
    TokenRejectedError,
    UnsatisfiableError,
)
from guided.json_schema.reader import known_formats
from guided.masks.binding import TokenBinding
from guided.masks.compiled import CompiledConstraint
from guided.masks.limits import ConstraintLimits
from guided.masks.mask_store import MaskStore
from guided.masks.matcher import FreeText, Matcher
from guided.masks.thinking import ThinkingMatcher
from guided.masks.vocabulary import Vocabulary
from guided.runtime.digest import digest_with_pauses
from guided.runtime.work_budget import limited_work
from guided.spec import Constraint, Forcing, JsonOptions, JsonSchema, Lark, Structure
from guided.spec.continued import Continued
from guided.spec.thoughts import AfterThoughts
from guided.stats import ConstraintStats

__all__ = ["ConstraintCompiler"]

_MAX_FULLNESS = 0.25
"""A machine that has grown beyond this share of its limits gets no new answers."""

_REHEARSED_GRAMMARS: Final = (
    (
        r"""
        start: "(" start ("," start)* ")" | /(?!if(?![a-z]))[a-z]+/ | "if"i start | TEXT | QUOTED
        TEXT: /"[^"]*"/
        QUOTED: /'[^']*'/
        %ignore " "
        """,
        (b"(((ab ", b'("a', b"'a"),
    ),
    (
        r"""
        start: term | start "+" term
        term: NUMBER | NAME ["(" start ")"] | "(" start ")"
        NUMBER: /[0-9]+([.][0-9]+)?/
        NAME: /[a-z_][a-z0-9_]*/
        %ignore " "
        """,
        (b"1", b"((a("),
    ),
)
"""Grammars that together use every kind of part, each with prefixes of its texts."""

_REHEARSED_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "a": {"pattern": "a.*"},
        "b": {"pattern": "x.*b"},
        "c": {"maxLength": 9},
        "d": {"enum": ["on", "off"]},
        "e": {"type": "array", "uniqueItems": True},
    },
}
_REHEARSED_DOCUMENTS: Final = (
    b'{"a":"a',
    b'{"c":"aaaaaaaa',
    b'{"d":"o',
    b'{"e":["a","',
    b'{"x":null,"x',
)

_COMMON_VALUES = (
    {"type": "number"},
    {"type": "integer"},
    {"type": "integer", "minimum": 0},
    {"type": "string", "maxLength": 9},
)

_UNLIMITED_BUDGET: Final = 2**62
"""More tokens than any answer has."""


class ConstraintCompiler:
    """Compiles constraints for one vocabulary; safe to use from several threads.

    Compiled constraints and refusals are kept by the digest of the constraint.
    """

    def __init__(self, vocabulary: Vocabulary, limits: ConstraintLimits | None = None) -> None:
        self.limits = limits or ConstraintLimits()
        self.binding = TokenBinding.of(vocabulary, self.limits.max_inner_mask_bytes)
        self._special_binding: TokenBinding | None = None
        """A binding for constraints that name special tokens whose bytes ``binding`` reads as text.
        """
        self._lock = threading.Lock()
        self._free_text = FreeText.of(vocabulary)
        # Shared by all constraints compiled here, so that equal masks of different ones are stored
        # once.
        self._masks = MaskStore(self.limits.max_mask_bytes)
        self._cache = CompiledCache(self.limits.max_compiled, self.limits.max_compiled_bytes)
        self._counts = CompileCounts()

    def start(self, constraint: Constraint) -> Matcher:
        """Return the matcher before the first token of an answer; ``None`` allows every text.

        Raises InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError or
        LimitExceededError if the constraint cannot be enforced.

        The compiled constraint may be shared with other answers. The matcher is immutable, so any
        thread may use it.
        """
        if constraint is None:
            return self._free_text
        if isinstance(constraint, AfterThoughts):
            return self._start_thinking(constraint)
        if isinstance(constraint, Continued):
            return self._start_continued(constraint)
        return self._get_or_compile(constraint, self._compile_and_complete).start()

    def _start_continued(self, constraint: Continued) -> Matcher:
        """Return the matcher after what has begun; raises what ``start`` raises, and RequestError
        for a beginning that does not fit.
        """
        if constraint.whole is None:
            return start_free(constraint, self.binding, self._free_text)
        compiled = self._get_or_compile(constraint.whole, self._compile_and_complete)
        return start_continued(constraint, compiled)

    def _start_thinking(self, constraint: AfterThoughts) -> ThinkingMatcher:
        """Return the matcher before the first token of thoughts; raises what ``start`` raises."""
        compiled = self._get_or_compile(constraint.thoughts, self._compile_and_complete)
        thoughts, answer = compiled.start(), self.start(constraint.answer)
        read_as = compiled.binding.vocabulary.read_as
        end_bytes = sum(len(read_as[token] or b"") for token in thoughts.shortest_completion())
        return ThinkingMatcher.before(
            thoughts, answer, constraint.max_tokens, end_bytes, len(read_as)
        )

    def stats(self) -> ConstraintStats:
        """Return what was counted so far, and what is kept now."""
        cache = self._cache
        return replace(
            self._counts.stats(),
            kept=len(cache),
            kept_bytes=cache.nbytes,
            kept_refusals=cache.num_refusals,
            mask_hits=self._masks.counts.hits,
            masks=self._masks.counts.computed(),
            mask_bytes=self._masks.nbytes,
        )

    def rehearse(self, options: JsonOptions | None = None, *, grammars_first: bool = False) -> None:
        """Load or build what the first requests of a process would otherwise wait for.

        That is machine code, loaded from numba's cache, and the automata of formats and of common
        values as the options spell them. It takes about a second, or minutes if there is no machine
        code yet. No compiled constraint is kept. A second process that runs this with
        ``grammars_first`` halves that time: each of the two loads what the other has compiled.
        """
        if grammars_first:
            self._rehearse_grammars()
        self._rehearse_schemas(options or JsonOptions())
        if not grammars_first:
            self._rehearse_grammars()

    def _rehearse_grammars(self) -> None:
        for grammar, texts in _REHEARSED_GRAMMARS:
            self._follow(Lark(grammar), texts)

    def _rehearse_schemas(self, options: JsonOptions) -> None:
        """Compile every format and the commonest values once, and follow some documents.

        The automata built for this are cached for all later schemas with the same ``options``.
        """
        schemas = [{"type": "string", "format": name} for name in known_formats()]
        members = JsonSchema(json.dumps(_REHEARSED_SCHEMA), options)
        with suppress(UnsatisfiableError, TokenRejectedError):
            self._follow(members, _REHEARSED_DOCUMENTS)
        for schema in (*schemas, {"patternProperties": {".": schemas[0]}}, *_COMMON_VALUES):
            constraint = JsonSchema(json.dumps(schema), options)
            # A vocabulary may lack the bytes that a format needs.
            with suppress(UnsatisfiableError):
                self._compile(constraint).start().mask()

    def _follow(self, constraint: Structure, texts: Iterable[bytes]) -> None:
        """Compute the masks along prefixes of texts, written in one-byte tokens.

        The texts are printable, so every vocabulary has those tokens. Raises TokenRejectedError if
        the constraint does not allow such a prefix, which can happen under some JSON options.
        """
        compiled = self._compile(constraint)
        for text in texts:
            matcher = compiled.start()
            for byte in text:
                token = self.binding.vocabulary.byte_ids[byte]
                matcher.allows(token)
                matcher = matcher.advance(token)
                matcher.forced_run(Forcing.CANONICAL)
            matcher.mask_within(1_000)

    def compile(self, constraint: Structure) -> CompiledConstraint:
        """Return the compiled constraint, cached if possible; raises what ``start`` raises."""
        return self._get_or_compile(constraint, self._compile)

    def renew(self, compiled: CompiledConstraint, constraint: Structure) -> CompiledConstraint:
        """Return the constraint for one more answer: compiled again if this one is too full."""
        return self.compile(constraint) if _is_full(compiled) else compiled

    def _get_or_compile(
        self, constraint: Structure, compile_new: Callable[[Structure], CompiledConstraint]
    ) -> CompiledConstraint:
        """Return the cached constraint, unless its machine is too full; else compile it.

        Raises the cached error of a constraint that was refused before. Threads that need the same
        one wait for the first of them. Only ConstraintError and LimitExceededError are cached as
        refusals; after any other error, the next caller tries again.
        """
        key = digest_with_pauses(constraint)
        compiled = self._get_unless_full(key)
        if compiled is None:
            with self._cache.compiling(key):
                # Another thread may have compiled it in the meantime.
                compiled = self._get_unless_full(key)
                if compiled is None:
                    try:
                        with self._counts.compiling():
                            compiled = compile_new(constraint)
                    except (ConstraintError, LimitExceededError) as error:
                        self._cache.put_refusal(key, error)
                        raise
                    self._cache.put(key, compiled)
                    return compiled
        self._counts.count_hit()
        return compiled

    def _get_unless_full(self, key: str) -> CompiledConstraint | None:
        """Return the cached constraint unless its machine is too full; raises a cached refusal."""
        # Machines only grow, so a popular one would fill up. Answers in progress keep the old one.
        try:
            compiled = self._cache.get(key)
        except (ConstraintError, LimitExceededError):
            self._counts.count_refusal_hit()
            raise
        return None if compiled is not None and _is_full(compiled) else compiled

    def _compile_and_complete(self, constraint: Structure) -> CompiledConstraint:
        """Compile, and search the first completion while no other thread can use the constraint.

        A limit that the search hits refuses the constraint, and is cached as that. A constraint
        that ``compile`` cached is searched only when its completion is first needed.
        """
        compiled = self._compile(constraint)
        compiled.start().can_complete_within(_UNLIMITED_BUDGET)
        return compiled

    def _compile(self, constraint: Structure) -> CompiledConstraint:
        with limited_work(self.limits.compile_work):
            unavailable = self.binding.vocabulary.missing_bytes
            limits = replace(self.limits.recognizer, max_string_start=self.binding.max_string_start)
            built = build_machine(constraint, unavailable, limits)
            binding = self._binding_of(built.special)
            if (now_missing := binding.vocabulary.missing_bytes) != unavailable:
                # A token that the constraint names was the only one of a byte.
                built = build_machine(constraint, now_missing, limits)
            built.machine.parts.check_room()
        return CompiledConstraint(built.machine, binding, self._masks, self.limits)

    def _binding_of(self, special: frozenset[str]) -> TokenBinding:
        """Return the binding for a constraint with these special tokens.

        Raises what ``check_special_tokens`` raises.
        """
        vocabulary = self.binding.vocabulary
        check_special_tokens(special, vocabulary)
        texts = vocabulary.token_bytes
        if all(texts[vocabulary.named[name]] is None for name in special):
            return self.binding
        with self._lock:
            if self._special_binding is None:
                self._special_binding = TokenBinding.of(
                    vocabulary.with_named_as_special(), self.limits.max_inner_mask_bytes
                )
        return self._special_binding


def _is_full(compiled: CompiledConstraint) -> bool:
    """Return whether no more answers should begin on its machine."""
    return compiled.machine.parts.fullness > _MAX_FULLNESS
