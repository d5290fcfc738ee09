"""What llguidance adds to Lark's format: what is refused and what to write instead, and options.

Its documentation (docs/syntax.md, docs/parametric.md of llguidance) says what the forms mean. Those
that mean here exactly what they mean there are parsed in ``bodies`` and ``parser``.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from guided.errors import UnsupportedFeatureError
from guided.grammar.lark.json_values import find_json_end
from guided.spec.source_position import SourcePosition

__all__ = ["REFUSED_ATTRIBUTES", "REFUSED_FORMS", "Refusal", "read_options"]


class Refusal(NamedTuple):
    """Why a form is refused, and what to write instead."""

    what: str
    hint: str

    def at(self, text: str, position: int) -> UnsupportedFeatureError:
        """Return the error for the form at a place of the grammar; does not raise it."""
        message = SourcePosition(text, position).message(self.what)
        return UnsupportedFeatureError(message, position=position, hint=self.hint)


_PARAMETRIC: Final = Refusal(
    "parametric rules, which count in a number as they go, are not supported",
    "write a rule for each case, bounds as in x~2..5, or each of few orders as an alternative",
)
REFUSED_FORMS: Final = {
    "%regex": Refusal(
        "%regex, the pieces of a text, is not supported",
        "list them as alternatives, or %declare a terminal and fill it with a Choice (holes=)",
    ),
    "%lark": Refusal(
        "%lark, a grammar inside of a grammar, is not supported",
        "%declare a terminal in its place and fill it with a Lark of its own (holes=)",
    ),
    "%if": _PARAMETRIC,
    "::": _PARAMETRIC,
    "reference": Refusal(
        "@, a reference to another grammar, is not supported",
        "%declare a terminal in its place and fill it with that grammar (holes=)",
    ),
}
"""By what they begin with, forms that ``tokens`` finds; a reference is ``@name``."""
REFUSED_ATTRIBUTES: Final = {
    "stop": Refusal(
        "stop, text that is written and then taken out of the answer, is not supported",
        "write suffix= for an end that stays in the answer; an answer itself ends where its"
        " grammar does",
    ),
    "max_chars": Refusal(
        "max_chars, a bound in characters, is not supported",
        "bound the repeats of the rule, as in /(?s:.){0,400}/",
    ),
    "max_tokens": Refusal(
        "max_tokens, a bound in tokens for a part of an answer, is not supported",
        "bound its characters, as in /(?s:.){0,400}/, or the whole answer by the request's"
        " max_tokens",
    ),
    "temperature": Refusal(
        "temperature, for a part of an answer, is not supported",
        "leave it out, and give the request a temperature",
    ),
}
"""By name."""

_HELD_VALUES: Final = {
    "allow_initial_skip": True,
    "allow_invalid_utf8": False,
    "no_forcing": False,
}
"""By name of an option, the one value that says what is so here in any case."""
_OPTION_HINTS: Final = {
    "allow_initial_skip": "leave it out: what is ignored may stand at the beginning, too",
    "allow_invalid_utf8": "leave it out: answers are text, in UTF-8",
    "no_forcing": 'leave it out, and give the request forcing="strict"',
}


def read_options(text: str, position: int) -> int:
    """Return the end of the object after ``%llguidance``, which itself ends at ``position``.

    Raises UnsupportedFeatureError for an option that asks for something else than what is so here,
    and InvalidConstraintError if no JSON is there.
    """
    while text[position : position + 1].isspace():
        position += 1
    end = find_json_end(text, position, "%llguidance")
    options = json.loads(text[position:end], parse_int=str)
    if not isinstance(options, dict):
        raise Refusal("%llguidance takes an object", "write {}, or leave it out").at(text, position)
    for name, value in options.items():
        if name not in _HELD_VALUES or value is not _HELD_VALUES[name]:
            shown = json.dumps(value)[:20]
            raise Refusal(
                f"the option {name!r} of %llguidance is not supported with the value {shown}",
                _OPTION_HINTS.get(name, "leave it out"),
            ).at(text, position)
    return end
