"""Small tasks with known answers: a text is written from a record, which has to be recovered.

a kind of record → some of its fields → values → a sentence for each, in any order → the text
                                      ↘ the schema and the expected object, in their own order
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from guided.spec import JsonSchema, Message
from guided.train.reward_tune.tasks import Task, compact

__all__ = ["KINDS", "extraction_tasks"]

_FEWEST_FIELDS: Final = 3
_MAX_TOKENS: Final = 80

_NAMES: Final = (
    *("Ada Brook", "Ben Castle", "Clara Dunn", "David Elm", "Edith Frost", "Farid Noor"),
    *("Greta Holm", "Hugo Iversen", "Ines Jordan", "Jakob Klein", "Lena Marsh", "Milo Novak"),
    *("Nora Olsen", "Omar Pasha", "Petra Quist", "Rosa Silva", "Sven Thorn", "Uma Varma"),
)
_TOWNS: Final = (
    *("Aarhus", "Bergen", "Cork", "Delft", "Evora", "Ghent", "Izmir", "Jena", "Krakow", "Lille"),
    *("Malmo", "Nantes", "Oulu", "Porto", "Riga", "Split", "Turin", "Utrecht", "Varna", "Zadar"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that a text may state: its possible values, and its wordings."""

    name: str
    values: tuple[Any, ...] | range
    """The possible values; a range for numbers."""
    sentences: tuple[str, ...] | Mapping[Any, tuple[str, ...]]
    """Ways to state it, with the value for ``{}``; for a truth value, those of each value."""
    is_enum: bool = False
    """Whether the schema lists the values."""

    @property
    def schema(self) -> dict[str, Any]:
        """Return the schema of the field."""
        if isinstance(self.values, range):
            return {"type": "integer", "minimum": self.values[0], "maximum": self.values[-1]}
        if self.values == (True, False):
            return {"type": "boolean"}
        if self.is_enum:
            return {"enum": list(self.values)}
        return {"type": "string", "minLength": 1, "maxLength": 24}

    def said(self, value: Any, rng: random.Random) -> str:
        """Return a sentence that states the value."""
        ways = self.sentences[value] if isinstance(self.sentences, Mapping) else self.sentences
        return rng.choice(ways).format(value)


def _text(name: str, values: tuple[str, ...], *sentences: str) -> Field:
    return Field(name, values, sentences)


def _number(name: str, values: range, *sentences: str) -> Field:
    return Field(name, values, sentences)


def _one_of(name: str, values: tuple[str, ...], *sentences: str) -> Field:
    return Field(name, values, sentences, is_enum=True)


def _truth(name: str, yes: tuple[str, ...], no: tuple[str, ...]) -> Field:
    return Field(name, (True, False), {True: yes, False: no})


KINDS: Final[Mapping[str, tuple[Field, ...]]] = {
    "parcel": (
        _text("sender", _NAMES, "{} sends it.", "The sender is {}."),
        _text("town", _TOWNS, "It goes to {}.", "Deliver it in {}."),
        _number("weight_kg", range(1, 31), "It weighs {} kg.", "The scales say {} kilograms."),
        _truth("fragile", ("Handle with care, it breaks.",), ("Nothing in it can break.",)),
    ),
    "loan": (
        _text("reader", _NAMES, "{} takes the book home.", "The book is lent to {}."),
        _number("days", range(7, 61), "It is due in {} days.", "{} days are allowed."),
        _one_of("shelf", ("history", "poetry", "science"), "It stands under {}.", "Shelf: {}."),
        _truth("renewed", ("The loan was renewed.",), ("It was never renewed.",)),
    ),
    "train ride": (
        _text("passenger", _NAMES, "{} travels alone.", "The ticket is for {}."),
        _text("start", _TOWNS, "The train leaves {}.", "It begins in {}."),
        _number("coach", range(1, 19), "Sit in coach {}.", "The seat is in coach number {}."),
        _one_of("fare", ("saver", "standard", "flexible"), "The fare is {}.", "A {} ticket."),
    ),
    "plant": (
        _one_of("species", ("fern", "ivy", "cactus", "basil"), "It is a {}.", "Someone grew a {}."),
        _number("height_cm", range(5, 181), "It is {} cm tall.", "It has grown to {} centimetres."),
        _text("owner", _NAMES, "It belongs to {}.", "{} waters it."),
        _truth("indoors", ("It lives in the house.",), ("It stands in the garden.",)),
    ),
    "repair": (
        _text("customer", _NAMES, "{} brought the bicycle.", "The bicycle is {}'s."),
        _one_of("part", ("brake", "chain", "saddle", "lamp"), "The {} is broken.", "Mend the {}."),
        _number("minutes", range(10, 121), "It takes {} minutes.", "Plan {} minutes for it."),
        _truth("paid", ("The bill is paid.",), ("The bill is still open.",)),
    ),
    "race": (
        _text("runner", _NAMES, "{} ran well.", "At the start stood {}."),
        _text("club", _TOWNS, "The club is from {}.", "The shirt says {}."),
        _number("place", range(1, 100), "The place was number {}.", "It ended in place {}."),
        _number("laps", range(2, 26), "{} laps were run.", "The course had {} laps."),
    ),
    "flat": (
        _text("town", _TOWNS, "The flat is in {}.", "It lies in the centre of {}."),
        _number("rooms", range(1, 8), "It has {} rooms.", "There are {} rooms."),
        _number("rent", range(400, 2000), "The rent is {} a month.", "{} euros are asked for it."),
        _truth("furnished", ("It is furnished.",), ("It comes empty.",)),
    ),
    "patient": (
        _one_of("animal", ("dog", "cat", "rabbit", "parrot"), "The {} is ill.", "It is a {}."),
        _text("owner", _NAMES, "{} came with it.", "Its owner is {}."),
        _number("age", range(1, 19), "It is {} years old.", "Its age is {}."),
        _truth("vaccinated", ("It has had its vaccine.",), ("It has had no vaccine yet.",)),
    ),
}
"""Fields by kind of record, in the order of the schema."""


def extraction_tasks(
    train: int, held_out: int, seed: int = 0
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Make tasks to train on and tasks to measure with; no text occurs twice.

    The same numbers and seed give the same tasks.
    """
    made = _tasks(random.Random(seed))  # noqa: S311 - likewise
    # Those to measure with come first: they stay the same when more are trained on.
    kept = [next(made) for _ in range(held_out)]
    return tuple(next(made) for _ in range(train)), tuple(kept)


def _tasks(rng: random.Random) -> Iterator[Task]:
    texts: set[str] = set()
    while True:
        kind = rng.choice(list(KINDS))
        fields = KINDS[kind]
        count = rng.randint(_FEWEST_FIELDS, len(fields))
        chosen = [fields[index] for index in sorted(rng.sample(range(len(fields)), count))]
        record = {field.name: rng.choice(field.values) for field in chosen}
        told = [field.said(record[field.name], rng) for field in chosen]
        rng.shuffle(told)
        text = " ".join(told)
        if text not in texts:
            texts.add(text)
            yield _task(f"{kind}-{len(texts)}", kind, text, chosen, record)


def _task(name: str, kind: str, text: str, fields: list[Field], record: dict[str, Any]) -> Task:
    *some, last = record
    schema = {
        "type": "object",
        "properties": {field.name: field.schema for field in fields},
        "required": list(record),
        "additionalProperties": False,
    }
    prompt = f"Answer as JSON with {', '.join(some)} and {last} of the {kind}. Text: {text}"
    return Task(
        name,
        (Message("user", prompt),),
        JsonSchema(json.dumps(schema)),
        compact(record),
        _MAX_TOKENS,
    )
