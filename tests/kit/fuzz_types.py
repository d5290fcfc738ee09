"""Random Python types against pydantic: the type accepts every text that the masks allow."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import GuidedError, LimitExceededError
from guided.response_types import (
    adapter_of,
    schema_of_adapter,
    unenforced_validators,
)
from guided.spec import JsonOptions, JsonSchema, Spelling, UnenforcedValidator
from tests.kit.campaign import FAULT_TEST, Fault, Subject
from tests.kit.python_types import PRELUDE, draw_source
from tests.kit.walks import BYTES, random_walk

__all__ = ["TEXTS", "TypeCase", "TypesSubject"]

TEXTS = 25
"""Number of texts for each type and spelling."""

_OWN_NAME = re.compile(r"\b[faF](\d+)\b")


@dataclass(frozen=True)
class TypeCase:
    """A type by its source, and the seed of its texts."""

    source: str
    seed: int


class TypesSubject(Subject[TypeCase]):
    """Only validators that ``check`` lists refuse an answer, and no error is unexpected."""

    name = "types"

    def __init__(self) -> None:
        self.compiler = ConstraintCompiler(BYTES)
        self.taken = 0
        """Number of types that could be response models."""

    def tally(self) -> str:
        return f"{self.taken} types with {2 * TEXTS} texts each"

    def draw(self, rng: random.Random) -> TypeCase:
        return TypeCase(draw_source(rng), rng.randrange(10**6))

    def judge(self, case: TypeCase) -> Fault | None:
        adapter = _adapter(case.source)
        if adapter is None:
            return None
        for spelling in Spelling:
            try:
                schema = schema_of_adapter(adapter, spelling)
                listed = unenforced_validators(adapter)
                start = self.compiler.start(JsonSchema(schema, JsonOptions(spelling=spelling)))
            except GuidedError:
                return None
            for number in range(TEXTS):
                rng = random.Random(case.seed + number)
                try:
                    walk = random_walk(start, rng, steps=5 + 4 * number)
                except LimitExceededError:  # the engine closes the answer where this is raised
                    return None
                text = bytes(token - 1 for token in walk.tokens)
                fault = _refusal(adapter, text, listed)
                if fault is not None:
                    return fault
        self.taken += 1
        return None

    def smaller(self, case: TypeCase) -> Iterator[TypeCase]:
        """Without a line, and with the type of one of the fields alone."""
        lines = case.source.splitlines(keepends=True)
        for at, line in enumerate(lines):
            yield TypeCase("".join(lines[:at] + lines[at + 1 :]), case.seed)
            _, colon, kind = line.partition(": ")
            if colon and line.startswith("    "):
                kind = kind.split(" = ")[0].strip()
                yield TypeCase("".join([*lines[:-1], f"Answer = {kind}\n"]), case.seed)

    def as_test(self, case: TypeCase, fault: Fault) -> str:
        return FAULT_TEST.format(
            doc=fault.kind,
            imports="from tests.kit.fuzz_types import TypeCase, TypesSubject",
            subject="TypesSubject()",
            case=repr(case),
        )


def _adapter(source: str) -> TypeAdapter[Any] | None:
    """The adapter of a type; ``None`` for a source that Python or ``adapter_of`` refuses."""
    names: dict[str, Any] = {"__name__": __name__}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pydantic's, of fields that shadow others and the like
        try:
            exec(compile(PRELUDE + source, "<type>", "exec", dont_inherit=True), names)  # noqa: S102 - classes that we wrote
        except Exception:
            return None
        try:
            return adapter_of(names["Answer"])
        except GuidedError:
            return None


def _refusal(
    adapter: TypeAdapter[Any], text: bytes, listed: tuple[UnenforcedValidator, ...]
) -> Fault | None:
    try:
        adapter.validate_json(text)
    except ValidationError as error:
        # If no member of a union accepts a value, each of them reports an error.
        faults = error.errors(include_url=False, include_context=False)
        places = [_numbers(fault["loc"]) for fault in faults]
        owned = [_OWN_NAME.findall(validator.place) for validator in listed]
        if not any(_go_together(one, other) for one in owned for other in places):
            return Fault(f"refused {faults[0]['type']}", f"{text!r}: {error}")
    except Exception as error:  # of a function, at an unexpected value
        if not listed:
            return Fault(f"raised {type(error).__name__}", f"{text!r}: {error}")
    return None


def _go_together(place: list[str], other: list[str]) -> bool:
    """Whether two places are the same, apart from steps that only one of them has.

    Pydantic reports the fields of a named tuple by position, and keys of dictionaries by name.
    """
    few, many = sorted((place, other), key=len)
    rest = iter(many)
    return all(step in rest for step in few)


def _numbers(place: tuple[int | str, ...]) -> list[str]:
    """The numbers of the fields on the way to a place; their aliases have them as well."""
    found = (_OWN_NAME.fullmatch(str(step)) for step in place)
    return [step[1] for step in found if step]
