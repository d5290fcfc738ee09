"""A compiler for one vocabulary, and the constraints that it has compiled."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from guided.compiler.integers import to_int
from guided.compiler.matcher import Matcher
from guided.compiler.vocabularies import AnyTokenizer, vocabulary_of
from guided.constraint.compiler import ConstraintCompiler
from guided.constraint.report import memory_of_machine
from guided.constraint.structure import structure_of
from guided.errors import RequestError
from guided.masks.compiled import CompiledConstraint
from guided.masks.limits import ConstraintLimits
from guided.masks.mask import mask_of
from guided.masks.mask_delta import MaskDelta
from guided.masks.vocabulary import Vocabulary
from guided.spec import CompileCost, JsonOptions, Structure

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import TypeForm

__all__ = ["Compiled", "Compiler"]


class Compiler:
    """Compiles constraints for one tokenizer; make one per process, and use it from any thread."""

    def __init__(
        self,
        tokenizer: AnyTokenizer,
        *,
        end_ids: Iterable[int] = (),
        num_logits: int | None = None,
        limits: ConstraintLimits | None = None,
    ) -> None:
        """``end_ids`` are the tokens at which the host stops, besides those the tokenizer knows.

        ``num_logits`` is the number of logits of the model, if it may be smaller than the number of
        tokens. This takes about a second. Raises ModelError for a tokenizer that cannot be used.
        """
        self.vocabulary: Final[Vocabulary] = vocabulary_of(tokenizer, end_ids, num_logits)
        self._core = ConstraintCompiler(self.vocabulary, limits)
        self.limits: Final[ConstraintLimits] = self._core.limits
        allowed = mask_of(len(self.vocabulary), sorted(self.vocabulary.end_ids))
        self._end_mask = MaskDelta(allowed, np.empty((0, 2), dtype=np.int32))

    def compile(
        self,
        constraint: str
        | Mapping[str, object]
        | re.Pattern[str]
        | Structure
        | TypeForm[Any]
        | TypeAdapter[Any],
        *,
        json_options: JsonOptions | None = None,
        documents: Mapping[str, str | Mapping[str, object]] | None = None,
    ) -> Compiled:
        """Compile a JSON Schema (text or dict), a Python type, or a constraint such as ``Regex``.

        A compiled pattern and a grammar's text in Lark's format are constraints, too.

        The constraints used last are kept within ``limits``, and so are refusals. Raises
        InvalidConstraintError, UnsupportedFeatureError, UnsatisfiableError or LimitExceededError.
        """
        structure = structure_of(constraint, json_options, documents)
        started_at = time.thread_time()
        compiled = self._core.compile(structure)
        seconds = time.thread_time() - started_at
        return Compiled(self._core, structure, compiled, self._end_mask, seconds)

    def bitmask(self, rows: int) -> NDArray[np.int32]:
        """Return memory for masks, int32 ``[rows, words]``, in which no token is allowed yet."""
        if to_int(rows, "rows") < 0:
            raise RequestError(f"{rows} rows", field="rows", hint="give how many rows there are")
        return np.zeros((rows, len(self._end_mask.base)), dtype=np.int32)

    def rehearse(self, json_options: JsonOptions | None = None) -> None:
        """Load machine code and build what constraints share, so that the first ones need not."""
        self._core.rehearse(json_options)


class Compiled:
    """A constraint bound to a vocabulary; safe to use from several threads."""

    def __init__(
        self,
        compiler: ConstraintCompiler,
        constraint: Structure,
        compiled: CompiledConstraint,
        end_mask: MaskDelta,
        seconds: float,
    ) -> None:
        self.constraint: Final = constraint
        table = compiled.machine.parts.table
        self.cost: Final = CompileCost(seconds, table.num_rows, memory_of_machine(compiled.machine))
        """What compiling took: almost nothing if the compiler already had the constraint."""
        self._compiler = compiler
        self._compiled = compiled
        self._end_mask: Final = end_mask

    @property
    def digest(self) -> str:
        """SHA-256 of the constraint; equal constraints are compiled once."""
        return self.constraint.digest()

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens that masks refer to."""
        return self._compiled.binding.vocabulary

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes now, without masks; it grows while answers are written."""
        return self._compiled.nbytes

    def matcher(self) -> Matcher:
        """Return a matcher before the first token of an answer.

        If the recogniser has grown to a good part of its limits, the constraint is compiled again,
        once for all later answers; answers in progress keep the old one.
        """
        self._compiled = self._compiler.renew(self._compiled, self.constraint)
        return Matcher(self._compiled.start(), self._end_mask)
