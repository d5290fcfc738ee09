"""How a tokenizer splits texts and which added tokens it finds in them, from its description.

Supported is how tokenizers split texts that have a token for every byte. For any other tokenizer
splitting is reported as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from guided.masks.described_tokenizer import Description
from guided.masks.spelling_rules import Tokens
from guided.masks.split_automaton import SplitAutomaton
from guided.masks.split_pattern import (
    FORK,
    MATCH,
    READ,
    CharacterTest,
    Program,
    Step,
    UnknownPatternError,
    program_of,
)
from guided.masks.splitting import Splitting
from guided.spec import TokenId

__all__ = ["added_tokens_of", "splitting_of", "steps_of"]

_BYTE_LEVEL: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""The pattern that the ByteLevel step splits by; no description contains it."""
_ONE: Final = Program((Step(READ), Step(MATCH)), ("",))
_MANY: Final = Program((Step(READ), Step(FORK, 0, 2), Step(MATCH)), ("",))
"""One character of a class, and many: for steps that do not split by a pattern."""


def added_tokens_of(
    description: Description, token_bytes: Sequence[bytes | None], space_letter: str | None
) -> list[dict[bytes, Tokens]] | None:
    """Return the added tokens: those found in a text as it stands, then those found once the text
    is normalized.

    ``None`` if finding one depends on its surroundings, as for a single word, if a token stands
    for other bytes than those that it is found by, or if two are found by the same. Special tokens
    stand for no text, and no text contains ``space_letter``, which the tokenizer writes for spaces:
    a token with the letter is found only where spaces are already written as it.

    No token of ``description`` that stands for text takes in the white space beside it (``lstrip``,
    ``rstrip``). That is not checked here: ``_usable_added_tokens`` sees to it.

    The list always has these two entries, though they may be empty. It is fresh: the caller may
    change it.
    """
    found: dict[bool, dict[bytes, Tokens]] = {False: {}, True: {}}
    is_letter_normalized = _is_letter_normalized(description)
    for entry in description["added_tokens"]:
        token, text, group = entry["id"], entry["content"], found[entry["normalized"]]
        if entry["special"] or not text:
            continue
        if space_letter is not None and space_letter in text:
            if not (entry["normalized"] and is_letter_normalized):
                continue
            text = text.replace(space_letter, " ")
        data = text.encode()
        if entry["single_word"] or token_bytes[token] != data or data in group:
            return None
        group[data] = (TokenId(token),)
    return [found[False], found[True]]


def splitting_of(description: Description, space_letter: str | None) -> Splitting | None:
    """Return how the tokenizer splits texts, ``None`` if that is not known.

    ``space_letter`` is what it writes for spaces, in the normalizer or by a Metaspace step; texts
    themselves do not contain it. ``description`` has a lossless normalizer, and no step of it adds
    a space before a text (``_exact_description``): other steps of a normalizer are not noticed.

    It has a stage, though the tokenizer may have none, if the tokenizer looks up whole pieces.

    ``None`` only means that no runs are forced by spelling; a wrong splitting would force wrong
    ones. So any step that is not known makes the result ``None``.
    """
    # Once bytes are written as letters, a later step would split letters and not the text.
    steps = list(steps_of(description, "normalizer"))
    is_in_letters = any(step["type"] == "ByteLevel" for step in steps)
    written = space_letter if _is_letter_normalized(description) else None
    stages = []
    for step in steps_of(description, "pre_tokenizer"):
        if step["type"] == "ByteLevel" and not step.get("use_regex", True):
            is_in_letters = True
            continue
        if is_in_letters:
            return None  # of bytes that are written as letters
        is_in_letters = step["type"] == "ByteLevel"
        try:
            stage = _stage(step, written)
        except UnknownPatternError:
            return None
        if step["type"] == "Metaspace":
            written = space_letter
        if stage is not None:
            stages.append(stage)
    if not stages and description["model"].get("ignore_merges"):
        # Whole pieces are looked up, so within a text it matters that no piece begins there.
        stages.append(SplitAutomaton(_MANY, [lambda _: True]))
    return Splitting(stages)


def steps_of(description: Description, *names: str) -> Iterator[Description]:
    """Yield the steps in order, each sequence replaced by its steps.

    ``names`` are ``normalizer`` or ``pre_tokenizer``, or both.
    """
    worklist = [description[name] for name in names]
    while worklist:
        step = worklist.pop(0)
        if step and step["type"] == "Sequence":
            worklist[:0] = step.get("normalizers", step.get("pretokenizers"))
        elif step:
            yield step


def _is_letter_normalized(description: Description) -> bool:
    """Return whether the normalizer writes a letter for spaces."""
    return any(
        step["type"] == "Replace" and step["pattern"] == {"String": " "}
        for step in steps_of(description, "normalizer")
    )


def _stage(step: Description, written: str | None) -> SplitAutomaton | None:
    """Return what a step splits by, ``None`` for nothing; raises UnknownPatternError.

    ``written`` is what spaces were replaced by before the step, ``None`` if they were not. A step
    that could split there, as any by a pattern, is known only without it: the step would see it in
    place of spaces, where the automaton reads the text itself.
    """
    from tokenizers import pre_tokenizers

    match step:
        case {"type": "ByteLevel"}:
            return _automaton(_BYTE_LEVEL)
        case {"type": "Metaspace", "replacement": letter} if written in (None, letter):
            return _automaton(" [^ ]*|[^ ]+") if step.get("split", True) else None
        case {"type": "Digits", "individual_digits": is_each}:
            digits = _Splits(pre_tokenizers.Digits(individual_digits=True), written)
            return SplitAutomaton(_ONE if is_each else _MANY, [digits])
        case {"type": "Punctuation", "behavior": "Isolated" | "Contiguous" as behavior}:
            signs = _Splits(pre_tokenizers.Punctuation(), written)
            return SplitAutomaton(_ONE if behavior == "Isolated" else _MANY, [signs])
        case {"type": "Split", "invert": False, "pattern": {"String": text}}:
            return _string_stage(str(text), step["behavior"], written)
        case {"type": "Split", "pattern": {"Regex": pattern}} if written is None:
            # A pattern that leaves nothing out splits the same way if the rest is removed.
            if (step["behavior"], step["invert"]) in (("Isolated", False), ("Removed", True)):
                return _automaton(pattern)
    raise UnknownPatternError(step)


def _string_stage(text: str, behavior: str, written: str | None) -> SplitAutomaton | None:
    """Return the automaton of a step that looks for ``text``; ``None`` if it splits nothing.

    ``written`` is what spaces were replaced by before the step, ``None`` if they were not. Merging
    is known only for a single character, once spaces were replaced.

    UnknownPatternError makes the whole splitting unknown; ``None`` only says that this step never
    splits.
    """
    if written is not None and " " in text:
        return None  # there are none any more
    if written is not None and not set(written).isdisjoint(text):
        raise UnknownPatternError(text)  # it would be found at spaces
    if behavior == "Isolated":
        return _automaton(re.escape(text))
    if len(text) != 1 or written is None:
        raise UnknownPatternError(text)
    own, other = re.escape(text), f"[^{re.escape(text)}]"
    if behavior == "MergedWithPrevious":
        return _automaton(f"{other}*{own}|{other}+")
    if behavior == "MergedWithNext":
        return _automaton(f"{own}{other}*|{other}+")
    raise UnknownPatternError(behavior)


def _automaton(pattern: str) -> SplitAutomaton:
    program = program_of(pattern)
    return SplitAutomaton(program, [_is_in(text) for text in program.classes])


def _is_in(character_class: str) -> CharacterTest:
    """Return a test by the tokenizers' own matcher, whose Unicode may be another version."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    split = Split(Regex(character_class), "removed")
    # A character of the class is removed, and nothing is left.
    return lambda character: not split.pre_tokenize_str(character)


class _Splits:
    """Whether a step splits a character off.

    Raises UnknownPatternError if it splits off what is ``written`` for spaces, if anything is.
    """

    def __init__(self, step: Any, written: str | None) -> None:
        self._step = step
        if written is not None and self(written):
            raise UnknownPatternError(step)

    def __call__(self, character: str) -> bool:
        # Steps split nothing off a letter: two pieces are the letter and the rest.
        return len(self._step.pre_tokenize_str("a" + character)) > 1
