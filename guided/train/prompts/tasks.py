"""Requests that leave more to the model: to judge, to call a function, to invent, to explain."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeAlias

from guided.train.prompts import words
from guided.train.prompts.fields import Schema, boolean, listed, object_of, text

__all__ = ["TASKS"]

Made: TypeAlias = tuple[str, Schema | None, int]
"""A prompt, the schema of its answer if any, and the tokens that it may take."""


def _count(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _some(random: Random, values: Sequence[str], least: int, most: int) -> list[str]:
    return random.sample(values, random.randint(least, most))


_GOOD: Final = (
    *("arrived early and works perfectly", "is the best I have owned", "looks even better at home"),
    *("was easy to set up", "is light and sturdy", "surprised me with its quality"),
)
_BAD: Final = (
    *("stopped working after a month", "smells of plastic", "was smaller than described"),
    *("came with a scratch", "is far too loud", "fell apart in the first week"),
)


def make_opinion(random: Random) -> Made:
    """Make an opinion about a product or a place, to be judged."""
    subject = random.choice((random.choice(words.GOODS), f"{random.choice(words.PLACES)} tour"))
    said = [random.choice(_GOOD), random.choice(_BAD)]
    random.shuffle(said)
    opinion = f"The {subject} {said[0]}" + random.choice((".", f", but it {said[1]}."))
    fields: dict[str, Schema] = {
        "mood": {"enum": ["happy", "neutral", "disappointed", "angry"]},
        "stars": _count(1, 5),
        "topic": {"enum": ["quality", "delivery", "price", "noise", "design"]},
        "recommends": boolean(),
        "summary": text(60),
        "is_complaint": boolean(),
        "strengths": listed(text(30), 0, 2),
    }
    keys = _some(random, list(fields), 2, 5)
    prompt = random.choice(
        (
            f'A customer writes: "{opinion}" Judge it as JSON with {", ".join(keys)}.',
            f"{opinion}\n\nRate this opinion. Return a JSON object ({', '.join(keys)}).",
        )
    )
    return prompt, object_of({key: fields[key] for key in keys}), 100


_TROUBLES: Final = (
    *("the app closes when I open the calendar", "I was charged twice this month"),
    *("my new password is not accepted", "the export to PDF shows empty pages"),
    *("the delivery address cannot be changed", "search finds nothing since Tuesday"),
    *("the printer in the hall is offline", "I never got the confirmation mail"),
    *("video calls freeze after a minute", "the discount code does not work"),
)


def make_trouble(random: Random) -> Made:
    """Make a message to a help desk, to be classified."""
    who, trouble = random.choice(words.FIRST_NAMES), random.choice(_TROUBLES)
    extra = random.choice(("", " Please hurry.", " It is not urgent.", " We are about 40 people."))
    fields: dict[str, Schema] = {
        "department": {"enum": ["accounts", "mobile", "web", "hardware", "sales"]},
        "urgency": {"enum": ["minor", "normal", "major", "blocking"]},
        "subject": text(48),
        "needs_answer": boolean(),
        "labels": listed({"enum": ["bug", "payment", "account", "question", "network"]}, 1, 3),
        "first_step": text(80),
        "sender": text(20),
    }
    keys = _some(random, list(fields), 3, 6)
    prompt = (
        f'Sort this message for the help desk. Message: "Hello, {trouble}.{extra} {who}" '
        f"Answer as JSON: {', '.join(keys)}."
    )
    return prompt, object_of({key: fields[key] for key in keys}), 140


def make_call(random: Random) -> Made:
    """Make a wish, to be turned into a call of one of several functions."""
    city, other = random.sample(words.CITIES, 2)
    job, name = random.choice(words.ODD_JOBS), random.choice(words.FIRST_NAMES)
    day, dish = random.choice(words.WEEKDAYS), random.choice(words.DISHES)
    days = {"enum": list(words.WEEKDAYS)}
    calls: dict[str, tuple[str, dict[str, Schema]]] = {
        "add_todo": (
            f"Put '{job}' on my list for {day}.",
            {"task": text(40), "day": days, "important": boolean()},
        ),
        "find_train": (
            f"When do trains go from {city} to {other} on {day} morning?",
            {"from_city": text(20), "to_city": text(20), "day": days},
        ),
        "send_text": (
            f"Tell {name} that I will be {random.randint(5, 50)} minutes late.",
            {"recipient": text(20), "text": text(80)},
        ),
        "find_recipe": (
            f"How do I make {dish} for {random.randint(2, 8)} people?",
            {"dish": text(30), "people": _count(1, 12), "vegetarian_only": boolean()},
        ),
        "set_temperature": (
            f"Make the bedroom {random.randint(16, 23)} degrees tonight.",
            {
                "room": {"enum": ["kitchen", "bedroom", "office", "bathroom"]},
                "degrees": _count(10, 30),
            },
        ),
        "convert_money": (
            f"What are {random.randint(5, 900)} euros in Swiss francs?",
            {"amount": _count(0, 100_000), "source": text(8), "target": text(8)},
        ),
    }
    names = _some(random, list(calls), 1, 3)
    wanted = names[0]
    random.shuffle(names)
    offered = ", ".join(f"{name}({', '.join(calls[name][1])})" for name in names)
    function, arguments = random.choice((("function", "parameters"), ("call", "with")))
    options = [
        object_of({function: {"const": name}, arguments: object_of(calls[name][1])})
        for name in names
    ]
    prompt = (
        f"These functions exist: {offered}. {random.choice(words.FIRST_NAMES)} asks: "
        f'"{calls[wanted][0]}" Write the call as JSON.'
    )
    return prompt, options[0] if len(options) == 1 else {"anyOf": options}, 90


def make_invention(random: Random) -> Made:
    """Make a request to invent a person or a thing."""
    kinds: tuple[tuple[str, dict[str, Schema]], ...] = (
        (
            f"a company in {random.choice(words.CITIES)} that sells {random.choice(words.GOODS)}s",
            {
                "company": text(30),
                "slogan": text(60),
                "founded": _count(1900, 2030),
                "employees": _count(1, 500),
                "values": listed(text(24), 2, 3),
            },
        ),
        (
            f"a {random.choice(words.PROFESSIONS)} who lives near a {random.choice(words.PLACES)}",
            {
                "name": text(24),
                "years": _count(18, 90),
                "hobbies": listed(text(24), 1, 3),
                "temper": {"enum": ["calm", "cheerful", "stern", "shy"]},
                "secret": text(80),
            },
        ),
        (
            f"a board game about {random.choice(words.SUBJECTS)}",
            {
                "title": text(30),
                "players": object_of({"least": _count(1, 4), "most": _count(2, 8)}),
                "minutes": _count(10, 240),
                "rules": listed(text(70), 2, 4),
                "goal": text(80),
            },
        ),
        (
            f"a garden with {random.choice(words.PLANTS)} and {random.choice(words.PLANTS)}",
            {
                "style": {"enum": ["wild", "formal", "kitchen", "japanese"]},
                "beds": listed(
                    object_of({"plant": text(20), "count": _count(1, 50), "sunny": boolean()}), 2, 4
                ),
                "note": text(80),
            },
        ),
    )
    wish, fields = random.choice(kinds)
    keys = _some(random, list(fields), 2, len(fields))
    verb = random.choice(("Invent", "Describe", "Make up"))
    prompt = f"{verb} {wish}. Answer as JSON with {', '.join(keys)}."
    return prompt, object_of({key: fields[key] for key in keys}), 180


def make_instructions(random: Random) -> Made:
    """Make a request for steps, plans, or answers to questions of several parts."""
    dish, subject, city = (
        random.choice(words.DISHES),
        random.choice(words.SUBJECTS),
        random.choice(words.CITIES),
    )
    steps = random.randint(2, 4)
    kinds: tuple[tuple[str, Schema], ...] = (
        (
            f"How is {dish} cooked? Name the dish, what is needed and {steps} steps",
            object_of(
                {
                    "dish": text(30),
                    "needed": listed(object_of({"what": text(24), "how_much": text(16)}), 2, 5),
                    "method": listed(text(90), steps, steps),
                }
            ),
        ),
        (
            f"Prepare {steps} flash cards about {subject} for a school class",
            object_of(
                {
                    "about": text(40),
                    "cards": listed(object_of({"front": text(80), "back": text(80)}), steps, steps),
                }
            ),
        ),
        (
            f"Plan {steps} stops of a walk through {city} for somebody who likes "
            f"{random.choice(('art', 'parks', 'music', 'old buildings', 'coffee'))}",
            object_of(
                {
                    "town": text(20),
                    "stops": listed(
                        object_of({"stop": text(40), "why": text(70), "minutes": _count(5, 180)}),
                        *(steps, steps),
                    ),
                }
            ),
        ),
        (
            f"Write an outline of a talk about {subject} with {steps} sections",
            object_of(
                {
                    "talk": text(50),
                    "audience": {"enum": ["children", "students", "experts", "everybody"]},
                    "sections": listed(
                        object_of({"heading": text(40), "points": listed(text(60), 1, 2)}),
                        *(steps, steps),
                    ),
                }
            ),
        ),
    )
    wish, schema = random.choice(kinds)
    return f"{wish}. {random.choice(('Answer as JSON.', 'Reply in JSON.'))}", schema, 300


def make_settings(random: Random) -> Made:
    """Make a wish about the settings of a program."""
    job = random.choice(("backup", "mail-filter", "image-resizer", "report-mailer", "log-cleaner"))
    hour, keep = random.randint(0, 23), random.randint(2, 60)
    fields: dict[str, Schema] = {
        "job": text(20),
        "enabled": boolean(),
        "hour": _count(0, 23),
        "keep_days": _count(1, 365),
        "target": object_of({"host": text(30), "path": text(40)}),
        "notify": listed(text(30), 0, 2),
        "retries": _count(0, 10),
        "verbosity": {"enum": ["quiet", "normal", "verbose"]},
    }
    keys = _some(random, list(fields), 3, 7)
    who = random.choice(words.FIRST_NAMES).lower()
    prompt = (
        f"Write settings for {job} as JSON with {', '.join(keys)}: it runs daily at {hour}:00, "
        f"keeps files for {keep} days under /srv/{job} on storage{random.randint(1, 9)}.example, "
        f"tries {random.randint(1, 5)} times, and tells {who}@mail.example."
    )
    return prompt, object_of({key: fields[key] for key in keys}), 160


def make_records(random: Random) -> Made:
    """Make a request for example rows of a table."""
    columns: dict[str, Schema] = {
        "name": text(24),
        "city": text(20),
        "price": {"type": "number", "minimum": 0},
        "in_stock": boolean(),
        "color": {"enum": list(words.COLORS)},
        "material": {"enum": list(words.MATERIALS)},
        "rating": _count(1, 5),
        "description": text(60),
    }
    keys, rows = _some(random, list(columns), 2, 5), random.randint(2, 4)
    what = random.choice((*words.GOODS, *words.PLANTS, *words.INSTRUMENTS))
    prompt = (
        f"Give {rows} example records for a table of {what} offers, as JSON. Every record has "
        f"{', '.join(keys)}."
    )
    row = object_of({key: columns[key] for key in keys})
    schema = random.choice(
        (listed(row, rows, rows), object_of({"records": listed(row, rows, rows)}))
    )
    return prompt, schema, 60 + 40 * rows


def make_question(random: Random) -> Made:
    """Make a question that is answered in free text."""
    subject, other = random.sample(words.SUBJECTS, 2)
    asked = (
        f"Explain {subject} to a ten-year-old in a few sentences.",
        f"What is the most surprising fact about {subject}?",
        f"What do {subject} and {other} have in common?",
        f"Write a short letter to {random.choice(words.FIRST_NAMES)} about a visit to the "
        f"{random.choice(words.PLACES)} in {random.choice(words.CITIES)}.",
        f"Give three tips for somebody who learns the {random.choice(words.INSTRUMENTS)}.",
        f"How should I care for my {random.choice(words.PLANTS)} in winter?",
        f"Write a Python function that sorts a list of {random.choice(words.GOODS)} records by "
        "price.",
        f"Summarise why {subject} matters, in two sentences.",
        f"A shop sells {random.randint(3, 40)} {random.choice(words.GOODS)}s a day at "
        f"{random.randint(4, 90)} euros each. What does it earn in a week?",
        f"Write a poem about a {random.choice(words.COLORS)} {random.choice(words.PLANTS)}.",
    )
    return random.choice(asked), None, random.choice((80, 120, 160))


def make_shown(random: Random) -> Made:
    """Make one of the others that have a schema, with the schema in the prompt."""
    make = random.choice((make_opinion, make_trouble, make_settings, make_invention))
    prompt, schema, budget = make(random)
    return f"{prompt}\nThe JSON has to fit this schema: {json.dumps(schema)}", schema, budget


TASKS: Final[tuple[tuple[Callable[[Random], Made], int], ...]] = (
    (make_opinion, 2),
    (make_trouble, 2),
    (make_call, 3),
    (make_invention, 3),
    (make_instructions, 4),
    (make_settings, 2),
    (make_records, 2),
    (make_question, 4),
    (make_shown, 1),
)
"""Makers of requests, each with its weight relative to the others."""
