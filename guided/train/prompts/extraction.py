"""Texts that state facts, and requests to extract some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from guided.train.prompts import words
from guided.train.prompts.fields import (
    Fact,
    Schema,
    amount,
    choice,
    clock,
    code,
    date,
    listed,
    number,
    object_of,
    person,
    phrase,
    text,
    word,
)

__all__ = ["DOMAINS", "make_extraction"]


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of text with the facts that it states; a text names them in braces."""

    thing: str
    texts: tuple[str, ...]
    facts: Mapping[str, Fact]


def _email(random: Random) -> str:
    name, firm = random.choice(words.FIRST_NAMES), random.choice(words.COMPANIES)
    return f"{name.lower()}@{firm.split()[0].lower()}.example"


def _telephone(random: Random) -> str:
    return f"+{random.randint(20, 60)} {random.randint(100, 999)} {random.randint(1000, 9999)}"


def _address(random: Random) -> str:
    return f"{random.randint(1, 250)} {random.choice(words.STREETS)}"


_CURRENCIES = ("EUR", "USD", "GBP", "CHF")

DOMAINS: Final = (
    Domain(
        "parcel",
        (
            "Parcel {number} from {sender} to {receiver} left {origin} on {sent} and weighs "
            "{weight} kg. It goes by {service} service.",
            "{sender} in {origin} sent {receiver} a parcel of {weight} kg ({number}) on {sent}, "
            "{service}.",
        ),
        {
            "number": code(("tracking_number", "parcel_id", "reference"), "PK", 6),
            "sender": word(("sender", "from", "shipped_by"), words.COMPANIES),
            "receiver": person("recipient", "receiver", "addressee"),
            "origin": word(("origin", "sent_from"), words.CITIES),
            "sent": date("sent_on", "shipping_date"),
            "weight": amount(("weight_kg", "weight"), 30),
            "service": choice(("service", "speed"), ("express", "standard", "economy")),
        },
    ),
    Domain(
        "employee",
        (
            "{name} joined {firm} as a {job} on {started}. The office is at {address} in {city}; "
            "{name} can be reached at {email} or {phone}.",
            "New colleague: {name}, {job}, {age} years old, from {city}. Starts {started}. "
            "Mail: {email}.",
        ),
        {
            "name": person("name", "employee", "full_name"),
            "firm": word(("employer", "company_name"), words.COMPANIES),
            "job": word(("position", "role", "job"), words.PROFESSIONS),
            "started": date("start_date", "joined_on", "hired"),
            "address": phrase(("office_address", "street_address"), _address),
            "city": word(("city", "town", "home_town"), words.CITIES),
            "email": phrase(("email", "mail"), _email),
            "phone": phrase(("phone", "telephone", "phone_number"), _telephone),
            "age": number(("age", "age_years"), 19, 66),
        },
    ),
    Domain(
        "order",
        (
            "Order {number}: {count} x {product} ({color}, {material}) at {price} {currency} each, "
            "for {customer} in {city}. Delivery by {due}.",
            "{customer} from {city} bought {count} pieces of the {color} {product} for {price} "
            "{currency} each under order {number}.",
        ),
        {
            "number": code(("order_number", "order_id", "order"), "ORD", 5),
            "count": number(("quantity", "count", "pieces"), 1, 40),
            "product": word(("product", "item", "article"), words.GOODS),
            "color": choice(("color", "colour"), words.COLORS),
            "material": choice(("material", "made_of"), words.MATERIALS),
            "price": amount(("unit_price", "price", "price_each"), 300),
            "currency": choice(("currency", "currency_code"), _CURRENCIES),
            "customer": person("customer", "buyer_name", "customer_name"),
            "city": word(("city", "destination_city"), words.CITIES),
            "due": date("deliver_by", "delivery_date"),
        },
    ),
    Domain(
        "concert",
        (
            "The {instrument} recital of {artist} takes place on {day} at {time} in the {place} of "
            "{city}. Tickets cost {price} {currency}; there are {seats} seats.",
            "{artist} plays the {instrument} in {city} on {day}, doors open at {time}, admission "
            "{price} {currency}.",
        ),
        {
            "artist": person("artist", "musician", "performer"),
            "instrument": choice(("instrument", "plays"), words.INSTRUMENTS),
            "day": date("date", "concert_date", "day"),
            "time": clock("time", "begins", "starts_at"),
            "place": word(("venue", "place", "where"), words.PLACES),
            "city": word(("city", "location"), words.CITIES),
            "price": amount(("ticket_price", "price", "admission"), 90),
            "currency": choice(("currency", "money"), _CURRENCIES),
            "seats": number(("seats", "capacity"), 60, 900),
        },
    ),
    Domain(
        "match",
        (
            "{home} beat {guest} {score} to {other} in yesterday's {sport} match in {city}, before "
            "{crowd} people.",
            "{sport}: {home} against {guest} ended {score} to {other} in {city} on {day}; the "
            "best player was {best}.",
        ),
        {
            "home": word(("home_team", "winner", "team_a"), words.TEAMS),
            "guest": word(("away_team", "loser", "team_b"), words.TEAMS),
            "score": number(("home_score", "points_a", "winner_points"), 3, 99),
            "other": number(("away_score", "points_b", "loser_points"), 0, 90),
            "sport": choice(("sport", "game"), words.SPORTS),
            "city": word(("city", "played_in"), words.CITIES),
            "crowd": number(("spectators", "attendance"), 100, 40_000),
            "day": date("date", "played_on"),
            "best": person("best_player", "player_of_the_match"),
        },
    ),
    Domain(
        "flat",
        (
            "For rent: {rooms} rooms, {area} square metres on floor {floor}, {address}, {city}. "
            "{rent} {currency} a month, free from {free}. Ask {owner}, {phone}.",
            "{owner} lets a flat of {area} square metres with {rooms} rooms in {city} for {rent} "
            "{currency} from {free}.",
        ),
        {
            "rooms": number(("rooms", "room_count"), 1, 7),
            "area": number(("area_m2", "square_metres", "size"), 22, 180),
            "floor": number(("floor", "storey"), 0, 12),
            "address": phrase(("address", "street"), _address),
            "city": word(("city", "town"), words.CITIES),
            "rent": number(("rent", "monthly_rent"), 400, 3500),
            "currency": choice(("currency",), _CURRENCIES),
            "free": date("available_from", "free_from"),
            "owner": person("landlord", "owner", "contact"),
            "phone": phrase(("phone", "contact_phone"), _telephone),
        },
    ),
    Domain(
        "course",
        (
            "{teacher} teaches {course} every {weekday} at {time} in room {room}; {seats} students "
            "may join, and it is worth {credits} credits.",
            "Course: {course}. Lecturer: {teacher}. {weekday}s, {time}. Room {room}. First meeting "
            "on {day}.",
        ),
        {
            "teacher": person("teacher", "lecturer", "instructor"),
            "course": word(("course", "course_title", "class"), words.COURSES),
            "weekday": choice(("weekday", "day_of_week"), words.WEEKDAYS),
            "time": clock("time", "hour", "begins_at"),
            "room": number(("room", "room_number"), 100, 499),
            "seats": number(("places", "max_students"), 10, 120),
            "credits": number(("credits", "credit_points"), 1, 12),
            "day": date("first_day", "first_meeting"),
        },
    ),
    Domain(
        "repair",
        (
            "{customer} brought in a {product} on {day}: it makes noises and does not start. "
            "{worker} will repair it for about {price} {currency}; job {number}, priority "
            "{priority}.",
            "Job {number} ({priority}): {product} of {customer}, taken in on {day} by {worker}.",
        ),
        {
            "customer": person("customer", "owner", "client"),
            "product": word(("device", "object", "item"), words.GOODS),
            "day": date("received_on", "taken_in"),
            "worker": person("technician", "handled_by"),
            "price": amount(("estimate", "estimated_price"), 200),
            "currency": choice(("currency",), _CURRENCIES),
            "number": code(("job_number", "job", "repair_id"), "RJ", 4),
            "priority": choice(("priority", "urgency"), ("low", "medium", "high", "urgent")),
        },
    ),
)
_REQUESTS: Final = (
    'Extract the {thing} from the text. Text: "{text}" Answer as JSON.',
    "Read this note and fill in the {thing} as JSON with {keys}.\n\n{text}",
    'Text: "{text}"\nGive {keys} of the {thing} as a JSON object.',
    "Turn the following into JSON for our database ({keys}): {text}",
    "{text}\n\nWhat does this say about the {thing}? Reply with JSON: {keys}.",
)


def make_extraction(random: Random) -> tuple[str, Schema, int]:
    """Make a prompt, the schema of its answer, and the tokens that it may take."""
    if random.random() < 0.2:
        return _make_list(random)
    domain = random.choice(DOMAINS)
    written = random.choice(domain.texts)
    stated = [name for name in domain.facts if f"{{{name}}}" in written]
    values = {name: domain.facts[name].stated(random) for name in stated}
    asked = random.sample(stated, random.randint(2, min(7, len(stated))))
    properties = {
        random.choice(domain.facts[name].names): domain.facts[name].schema(random) for name in asked
    }
    prompt = random.choice(_REQUESTS).format(
        thing=domain.thing, text=written.format(**values), keys=", ".join(properties)
    )
    return prompt, _shaped(properties, domain.thing, random), 40 + 24 * len(asked)


def _shaped(properties: Mapping[str, Schema], thing: str, random: Random) -> Schema:
    """Return the properties as they are, or with some of them in a nested object."""
    if len(properties) < 4 or random.random() < 0.7:
        return object_of(properties)
    names = list(properties)
    inner = {name: properties[name] for name in names[-2:]}
    outer = {name: properties[name] for name in names[:-2]}
    return object_of(
        {**outer, random.choice(("details", "more", f"{thing}_info")): object_of(inner)}
    )


def _make_list(random: Random) -> tuple[str, Schema, int]:
    """Make a prompt to list the things that a text enumerates."""
    count = random.randint(2, 5)
    goods = random.sample(words.GOODS, count)
    lines = [
        (random.randint(1, 20), name, f"{random.randint(1, 200)}.{random.choice(('00', '50'))}")
        for name in goods
    ]
    said = ", ".join(f"{number} x {name} at {price}" for number, name, price in lines)
    firm, customer = random.choice(words.COMPANIES), random.choice(words.LAST_NAMES)
    number, name, price = random.choice(
        (("quantity", "item", "price"), ("count", "name", "unit_price"), ("pieces", "what", "each"))
    )
    row = {
        name: text(random.choice((24, 32))),
        number: {"type": "integer", "minimum": 1, "maximum": 100},
        price: {"type": "number", "minimum": 0},
    }
    keys = random.sample(list(row), random.randint(2, 3))
    list_name = random.choice(("lines", "positions", "articles", "basket"))
    schema = object_of(
        {
            "shop": text(32),
            "customer": text(24),
            list_name: listed(object_of({key: row[key] for key in keys}), 1, count),
        }
    )
    prompt = random.choice(
        (
            f'Extract the receipt. Text: "{firm}, receipt for {customer}: {said}." Answer as JSON.',
            f"{customer} bought at {firm}: {said}. List this as JSON with shop, customer and "
            f"{list_name}.",
        )
    )
    return prompt, schema, 60 + 40 * count
