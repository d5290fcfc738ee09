"""Compile constraints; each is compiled once and kept while it is in use."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from guided.constraint.compiled_cache import CompiledCache
from guided.constraint.machine import build
from guided.constraint.special_tokens import check_special
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
from guided.masks.thinking import Thinking
from guided.masks.vocabulary import Vocabulary
from guided.runtime.digest import digest_with_rests
from guided.runtime.fuel import limited_work
from guided.spec import Constraint, Forcing, JsonOptions, JsonSchema, Lark, Structure
from guided.spec.thoughts import AfterThoughts

__all__ = ["ConstraintCompiler"]

_FULL_ENOUGH = 0.25
"""When a machine has grown to this share of its limits, new answers begin on a new machine."""

_REHEARSED: Final = (
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
"""Grammars that together use every kind of part of a grammar, each with beginnings of its texts."""

_REHEARSED_MEMBERS: Final = {
    "type": "object",
    "properties": {
        "a": {"pattern": "a.*"},
        "b": {"pattern": "x.*b"},
        "c": {"maxLength": 9},
        "d": {"enum": ["on", "off"]},
    },
}
_REHEARSED_DOCUMENTS: Final = (b'{"a":"a', b'{"c":"aaaaaaaa', b'{"d":"o', b'{"x":null,"x')

_COMMON_VALUES = (
    {"type": "number"},
    {"type": "integer"},
    {"type": "integer", "minimum": 0},
    {"type": "string", "maxLength": 9},
)

_ANY_BUDGET: Final = 2**62
"""More tokens than any answer has."""


class ConstraintCompiler:
    """Compiles constraints for one vocabulary; safe to use from several threads.

    Compiled constraints and refusals are kept by the digest of the constraint.
    """

    def __init__(self, vocabulary: Vocabulary, limits: ConstraintLimits | None = None) -> None:
        self.limits = limits or ConstraintLimits()
        self.binding = TokenBinding.of(vocabulary, self.limits.max_inner_mask_bytes)
        self._names_apart: TokenBinding | None = None
        """The same for constraints that name special tokens which are otherwise read as text."""
        self._lock = threading.Lock()
        self._free_text = FreeText.of(vocabulary)
        # Shared by all constraints compiled here, so that equal masks of different ones are stored
        # once.
        self._masks = MaskStore(self.limits.max_mask_bytes)
        self._kept = CompiledCache(self.limits.max_compiled, self.limits.max_compiled_bytes)

    def start(self, constraint: Constraint) -> Matcher:
        """Return the position before the first token of an answer; ``None`` allows every text.

        Raises InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError or
        LimitExceededError if the constraint cannot be enforced.

        The compiled constraint may be shared with other answers. The matcher is immutable, so any
        thread may use it.
        """
        if constraint is None:
            return self._free_text
        if isinstance(constraint, AfterThoughts):
            return self._start_thinking(constraint)
        return self._made_once(constraint, self._compile_with_end).start()

    def _start_thinking(self, asked: AfterThoughts) -> Thinking:
        """Return the position before thoughts; raises what ``start`` raises."""
        compiled = self._made_once(asked.thoughts, self._compile_with_end)
        thoughts, answer = compiled.start(), self.start(asked.answer)
        read_as = compiled.binding.vocabulary.read_as
        end_bytes = sum(len(read_as[token] or b"") for token in thoughts.shortest_completion())
        return Thinking.before(thoughts, answer, asked.max_tokens, end_bytes, len(read_as))

    def rehearse(self, options: JsonOptions | None = None, *, grammars_first: bool = False) -> None:
        """Prepare what a process needs once and its first requests would otherwise wait for.

        That is machine code, loaded from numba's cache, and the automata of formats and of common
        values as the options spell them. It takes about a second. No compiled constraint is kept.
        If there is no machine code yet, it takes minutes. A second process that runs this with
        ``grammars_first`` halves that time: each of the two loads what the other has compiled.
        """
        if grammars_first:
            self._rehearse_grammars()
        self._rehearse_schemas(options or JsonOptions())
        if not grammars_first:
            self._rehearse_grammars()

    def _rehearse_grammars(self) -> None:
        for grammar, texts in _REHEARSED:
            self._follow(Lark(grammar), texts)

    def _rehearse_schemas(self, options: JsonOptions) -> None:
        """Compile every format and the commonest values once, and follow some documents.

        What this builds is kept for all later schemas with the same ``options``.
        """
        schemas = [{"type": "string", "format": name} for name in known_formats()]
        members = JsonSchema(json.dumps(_REHEARSED_MEMBERS), options)
        with suppress(UnsatisfiableError, TokenRejectedError):
            self._follow(members, _REHEARSED_DOCUMENTS)
        for schema in (*schemas, {"patternProperties": {".": schemas[0]}}, *_COMMON_VALUES):
            constraint = JsonSchema(json.dumps(schema), options)
            # A vocabulary may lack the bytes that a format needs.
            with suppress(UnsatisfiableError):
                self._compile(constraint).start().mask()

    def _follow(self, constraint: Structure, texts: Iterable[bytes]) -> None:
        """Compute the masks along the beginnings of texts, which are written in one-byte tokens.

        The texts are printable, and every vocabulary has those tokens. Raises TokenRejectedError if
        the constraint does not allow such a beginning, which can happen under some JSON options.

        The compiled constraint is dropped; only what the process shares stays warm.
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
        return self._made_once(constraint, self._compile)

    def renewed(self, compiled: CompiledConstraint, constraint: Structure) -> CompiledConstraint:
        """Return the constraint to begin one more answer on: a new one if this is too full."""
        return self.compile(constraint) if _is_full(compiled) else compiled

    def _made_once(
        self, constraint: Structure, make: Callable[[Structure], CompiledConstraint]
    ) -> CompiledConstraint:
        """Return the constraint compiled before, unless its machine is too full; else compile it.

        A constraint that was refused before is refused at once. Threads that ask for the same one
        wait for the first of them. Only ConstraintError and LimitExceededError are kept as
        refusals; after any other error, the next caller tries again.
        """
        key = digest_with_rests(constraint)
        compiled = self._still_roomy(key)
        if compiled is None:
            with self._kept.making(key):
                # Another thread may have compiled it in the meantime.
                compiled = self._still_roomy(key)
                if compiled is None:
                    try:
                        compiled = make(constraint)
                    except (ConstraintError, LimitExceededError) as error:
                        self._kept.refuse(key, error)
                        raise
                    self._kept.put(key, compiled)
        return compiled

    def _still_roomy(self, key: str) -> CompiledConstraint | None:
        """Return the kept constraint unless its machine is too full; raises an earlier refusal."""
        # Machines only grow, so a popular one would fill up. Answers in progress keep the old one.
        compiled = self._kept.get(key)
        return None if compiled is not None and _is_full(compiled) else compiled

    def _compile_with_end(self, constraint: Structure) -> CompiledConstraint:
        """Also look for the first end while no other thread can wait for the constraint's lock."""
        compiled = self._compile(constraint)
        compiled.start().fits(_ANY_BUDGET)
        return compiled

    def _compile(self, constraint: Structure) -> CompiledConstraint:
        with limited_work(self.limits.compile_work):
            missing = self.binding.vocabulary.missing_bytes
            built = build(constraint, missing, self.limits.recognizer)
            built.machine.parts.check_room()
        binding = self._binding_of(built.special)
        return CompiledConstraint(built.machine, binding, self._masks, self.limits)

    def _binding_of(self, special: frozenset[str]) -> TokenBinding:
        """Return the binding for a constraint with these special tokens.

        Raises what ``check_special`` raises, as it does if the vocabulary lacks one.
        """
        vocabulary = self.binding.vocabulary
        check_special(special, vocabulary)
        texts = vocabulary.token_bytes
        if all(texts[vocabulary.named[name]] is None for name in special):
            return self.binding
        with self._lock:
            if self._names_apart is None:
                self._names_apart = TokenBinding.of(
                    vocabulary.with_names_apart(), self.limits.max_inner_mask_bytes
                )
        return self._names_apart


def _is_full(compiled: CompiledConstraint) -> bool:
    """Return whether no more answers should begin on its machine."""
    return compiled.machine.parts.fullness > _FULL_ENOUGH
