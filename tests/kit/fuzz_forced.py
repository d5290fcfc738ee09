"""Forced runs along random answers, against the tokenizer's own spelling of the finished answer."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from guided.constraint import Matcher
from guided.constraint.compiler import ConstraintCompiler
from guided.errors import GuidedError
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, JsonSchema, Regex, TokenId
from tests.kit.built_tokenizers import BUILT, built_vocabulary
from tests.kit.campaign import FAULT_TEST, Fault, Subject, smaller_texts
from tests.kit.schemas import compact
from tests.kit.tokenizers import TOKENIZERS, real_vocabulary

__all__ = ["FORCED", "FORCED_OF_REAL", "Answer", "ForcedSubject"]

_CHARACTERS = (
    "abemstTéßſİ名前안مไा\u0301    \n\r\t\xa0\u3000\u2028\x85\x1f\u200b017٣²½Ⅷ一"
    "\"'’,:{}[]\\/-_.<>|$%😀😁🇫🇷👩\u200d\ufe0f▁Ġ–…€\ufeff\x7f"
)
_WORDS = (
    *(" the", "name", "don't", "DON'T", "it's", "'ll", "'re", " in", "ing", "städte", "北京"),
    *("  ", "   ", "\n\n", "\n  ", "\r\n", "\t\t", " \n ", "\n\n\n", "    ", ": ", '": "', '","'),
    *('{"', "}}", "12", "2024", "3.14", "1e9", "</s>", "<s>", "<unk>", "<0x41>", "<|im_end|>"),
    *("<|endoftext|>", "<tool_call>", "</tool_call>", "<table>", "</td>", "<unused3>", "<mask>"),
    *("[multimodal]", "[x]", "<|e", "</", "http://", "--", "===", "...", "!!", "?!", "日本語"),
    *("👩\u200d👩\u200d👧", "e\u0301", "a\u0300\u0301", "\\n", '\\"'),
)  # fmt: skip
_SETS: tuple[tuple[str, str], ...] = (
    ("[0-9]", "0123456789"),
    ("[a-z]", "aeinorst"),
    ("[ a-z]", "  aet"),
    (r"[\n ]", "\n  "),
    ("[\t ]", "\t "),
    ("[一-龥]", "一北京日本語的龥"),
    ("[😀-😂]", "😀😁😂"),
    ("[à-ÿ]", "àéüÿ"),
    ("['stre]", "'stre"),
    ("[<>/a-z]", "<>/as"),
    ("[^a]", 'bé"0 \n一😀-'),
    ("[\u0300-\u0302x]", "\u0300\u0301x"),
    ('[^"\\\\]', "a 1é'<一"),
    ("[()\\[\\]{}]", "()[]{}"),
)
"""Classes, and characters of each."""


FORCED_OF_REAL: Mapping[str, str] = {f"forced_{name}": name for name in TOKENIZERS}
"""The one real tokenizer of each subject, by the subject's name."""

FORCED: Mapping[str, tuple[str, ...]] = {
    "forced": tuple(BUILT),
    **{subject: (name,) for subject, name in FORCED_OF_REAL.items()},
}
"""The tokenizers of each subject, by the subject's name."""


class Answer(NamedTuple):
    """A constraint, and a text that satisfies it."""

    tokenizer: str
    kind: str
    constraint: str
    text: str


class ForcedSubject(Subject[Answer]):
    """Every token of a run is the one that the tokenizer chooses."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._compilers: dict[str, ConstraintCompiler] = {}
        self.positions = 0
        """Number of positions at which some bytes were certain."""
        self.forced = 0
        """Number of tokens in runs."""

    def tally(self) -> str:
        return f"{self.positions} positions, {self.forced} forced tokens"

    def draw(self, rng: random.Random) -> Answer:
        tokenizer = rng.choice(FORCED[self.name])
        if rng.random() < 0.3:
            return Answer(tokenizer, "schema", *_drawn_document(rng))
        return Answer(tokenizer, "pattern", *_drawn_pattern(rng))

    def judge(self, case: Answer) -> Fault | None:
        compiler = self._compilers.get(case.tokenizer)
        if compiler is None:
            compiler = ConstraintCompiler(_vocabulary(case.tokenizer))
            self._compilers[case.tokenizer] = compiler
        vocabulary = _vocabulary(case.tokenizer)
        if vocabulary.missing_bytes.intersection(case.text.encode()):
            return None
        tokens = [TokenId(token) for token in vocabulary.spell(case.text)]
        try:
            matcher: Matcher = compiler.start(
                JsonSchema(case.constraint) if case.kind == "schema" else Regex(case.constraint)
            )
        except GuidedError:
            return None  # left to another subject
        return self._followed(vocabulary, matcher, tokens)

    def _followed(
        self, vocabulary: Vocabulary, matcher: Matcher, tokens: list[TokenId]
    ) -> Fault | None:
        position = 0
        while position < len(tokens):
            run = matcher.forced_run(Forcing.CANONICAL)
            own = tokens[position : position + len(run)]
            self.positions += bool(matcher.likely_run())
            self.forced += len(run)
            if list(run) != own:
                texts = [[vocabulary.token_bytes[token] for token in each] for each in (run, own)]
                return Fault("spelled otherwise", f"{texts[0]} in place of {texts[1]}")
            # Also start inside of runs: a model may have got only a part of one.
            matcher = matcher.advance(tokens[position])
            position += 1
        return None if matcher.is_accepting else Fault("refused", "the end")

    def smaller(self, case: Answer) -> Iterator[Answer]:
        if case.kind == "pattern":
            for pattern in smaller_texts(case.constraint):
                for text in (case.text, *smaller_texts(case.text)):
                    if _matches(pattern, text):
                        yield case._replace(constraint=pattern, text=text)
        for text in smaller_texts(case.text):
            if case.kind == "pattern" and _matches(case.constraint, text):
                yield case._replace(text=text)

    def as_test(self, case: Answer, fault: Fault) -> str:
        return FAULT_TEST.format(
            doc=fault.kind,
            imports="from tests.kit.fuzz_forced import Answer, ForcedSubject",
            subject=f"ForcedSubject({self.name!r})",
            case=repr(case),
        )


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.fullmatch(pattern, text) is not None
    except re.error:
        return False


# --- answers ----------------------------------------------------------------------------------


def _drawn_text(rng: random.Random, most: int) -> str:
    return "".join(
        rng.choice(_CHARACTERS if rng.random() < 0.6 else _WORDS)
        for _ in range(rng.randint(0, most))
    )


def _drawn_pattern(rng: random.Random) -> tuple[str, str]:
    pattern, text = "", ""
    for _ in range(rng.choice([1, 2, 4, 12])):
        more_pattern, more = _drawn_part(rng, 1)
        pattern, text = pattern + more_pattern, text + more
    return pattern, text


def _drawn_part(rng: random.Random, depth: int) -> tuple[str, str]:
    """A part of a pattern, and a text that it matches."""
    kind = rng.randrange(6 if depth else 4)
    if kind < 2:
        text = _drawn_text(rng, rng.choice([2, 6, 20]))
        return re.escape(text), text
    if kind < 4:
        pattern, characters = rng.choice(_SETS)
        low = rng.choice([0, 1, 1, 2, 3])
        high = low + rng.choice([0, 0, 1, 5])
        bounds = rng.choice([f"{{{low},{high}}}", f"{{{low},}}"])
        return pattern + bounds, "".join(rng.choices(characters, k=rng.randint(low, high)))
    if kind == 4:
        texts = [_drawn_text(rng, 3) for _ in range(rng.randint(2, 4))]
        common = _drawn_text(rng, 2)
        texts = [rng.choice(["", common]) + text for text in texts]
        return f"(?:{'|'.join(map(re.escape, texts))})", rng.choice(texts)
    pattern, text = _drawn_part(rng, depth - 1)
    return f"(?:{pattern})?", rng.choice([text, ""])


def _drawn_document(rng: random.Random) -> tuple[str, str]:
    schema, draw = _drawn_value(rng, 2)
    return json.dumps(schema, ensure_ascii=rng.random() < 0.5), compact(draw()).decode()


def _drawn_value(rng: random.Random, depth: int) -> tuple[object, Callable[[], object]]:
    kind = rng.randrange(7 if depth else 5)
    texts = [_drawn_text(rng, 3) for _ in range(rng.randint(1, 4))]
    if kind == 0:
        return {"enum": texts}, lambda: rng.choice(texts)
    if kind == 1:
        return {"type": "string"}, lambda: _drawn_text(rng, 3)
    if kind == 2:
        return {"const": texts}, lambda: texts
    if kind == 3:
        return {"type": ["integer", "boolean"]}, lambda: rng.choice([0, -7, 1999, True])
    if kind == 4:
        return {"type": ["string", "null"], "maxLength": 2}, lambda: rng.choice([None, "", "a'"])
    if kind == 5:
        items, draw = _drawn_value(rng, depth - 1)
        schema = {"type": "array", "items": items, "minItems": rng.randint(0, 1)}
        return schema, lambda: [draw() for _ in range(rng.randint(1, 3))]
    parts = {name: _drawn_value(rng, depth - 1) for name in texts}
    schema = {
        "type": "object",
        "properties": {name: part[0] for name, part in parts.items()},
        "required": [name for name in parts if rng.random() < 0.7],
        "additionalProperties": False,
    }
    return schema, lambda: {name: draw() for name, (_, draw) in parts.items()}


def _vocabulary(name: str) -> Vocabulary:
    return built_vocabulary(name) if name in BUILT else real_vocabulary(name)
