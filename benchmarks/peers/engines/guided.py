"""guided, in three ways that differ in what JSON Schema leaves open.

`guided` writes members in the order of the schema and asserts formats; `guided_any` takes members
in any order, with formats as notes; `guided_format` takes any order and asserts formats. All write
any spelling, without bounds of our own, and with free white space unless the benchmark requests
compact JSON.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from benchmarks.peers.adapter import Adapter, Matcher, Tokenizer, serialise
from guided.constraint.compiler import ConstraintCompiler
from guided.errors import UnsatisfiableError
from guided.masks.compiled import CompiledConstraint
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.spec import Forcing, FormatMode, JsonOptions, JsonSchema, KeyOrder, Spelling, TokenId
from tests.conformance.suite import remote_documents

__all__ = ["Guided", "GuidedAny", "GuidedFormat"]

_REMOTE: Final = "http://localhost:1234/"
"""The address where schemas of the official suite expect the documents that they refer to."""

_WARM_UP: Final = {
    "type": "object",
    "properties": {
        "a": {"maxLength": 9, "pattern": "^[a-c]", "not": {"pattern": "d$"}},
        "b": {"type": "array", "items": {"type": "number"}, "uniqueItems": True},
    },
}
_WARM_UP_DOCUMENTS: Final = ({"a": "b", "b": [1, 2]}, {"free": {"x": None, "y": "z"}})


class Guided(Adapter):
    """Members in the order of the schema, formats asserted."""

    name = "guided"
    package = "guided-decoding"
    key_order: ClassVar = KeyOrder.SCHEMA
    format: ClassVar = FormatMode.ASSERT

    def build(self, tokenizer: Tokenizer) -> None:
        """Read the vocabulary, and have all kernels compiled before the workers are forked."""
        super().build(tokenizer)
        vocabulary = vocabulary_from_tokenizer(tokenizer.hf, end_ids=[tokenizer.eos_id])
        assert len(vocabulary) == tokenizer.vocab_size, (len(vocabulary), tokenizer.vocab_size)
        self.bits = self.words.view(np.int32)
        self._options = JsonOptions(
            whitespace=0 if self.compact else None,
            key_order=self.key_order,
            format=self.format,
            spelling=Spelling.ANY,
            max_string_length=None,
            max_number_digits=None,
        )
        self._compiler = ConstraintCompiler(vocabulary)
        self._compiler.rehearse(self._options)
        self._warm_up()
        # The workers start from a compiler that knows no schema.
        self._compiler = ConstraintCompiler(vocabulary)

    def _warm_up(self) -> None:
        matcher = self.compile(_WARM_UP)
        for document in _WARM_UP_DOCUMENTS:
            matcher.reset()
            for token in self.tokenizer.encode(serialise(document, self.compact)):
                matcher.mask()
                matcher.forced()
                if not matcher.accept(token):
                    raise AssertionError(f"{document} was refused at token {token}")

    def compile(self, schema: Any) -> Matcher:
        """Return the matcher of a parsed schema; raises a GuidedError if it cannot be enforced."""
        text = serialise(schema)
        documents = remote_documents() if _REMOTE in text else ()
        try:
            compiled = self._compiler.compile(JsonSchema(text, self._options, documents))
        except UnsatisfiableError:
            # The schema was understood, but no document fits it.
            return _Nothing(self)
        return _Matcher(self, compiled)


class GuidedAny(Guided):
    """Members in any order, formats as notes: what the required tests of the suite expect."""

    name = "guided_any"
    key_order = KeyOrder.ANY
    format = FormatMode.ANNOTATE


class GuidedFormat(Guided):
    """Members in any order, formats asserted: what the format tests of the suite expect."""

    name = "guided_format"
    key_order = KeyOrder.ANY


class _Matcher(Matcher):
    def __init__(self, adapter: Guided, compiled: CompiledConstraint) -> None:
        self._bits = adapter.bits
        self._start = compiled.start()
        self._at = self._start

    def reset(self) -> None:
        self._at = self._start

    def mask(self) -> None:
        self._at.constraint.mask(self._at.position).fill(self._bits)

    def accept(self, token: int) -> bool:
        self._at = self._at.advance(TokenId(token))
        return True

    def is_accepting(self) -> bool:
        return self._at.is_accepting

    def forced(self) -> list[int]:
        return list(self._at.forced_run(Forcing.CANONICAL))


class _Nothing(Matcher):
    """The matcher of a schema that no document fits."""

    def __init__(self, adapter: Guided) -> None:
        self._bits = adapter.bits

    def reset(self) -> None:
        pass

    def mask(self) -> None:
        self._bits.fill(0)

    def accept(self, token: int) -> bool:  # noqa: ARG002 - none is
        return False

    def is_accepting(self) -> bool:
        return False
