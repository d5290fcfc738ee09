"""Ten requests as an application would make them, each with a prompt and a Pydantic model."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from guided import Request

__all__ = ["REQUESTS"]

ShortText = Annotated[str, Field(min_length=1, max_length=40)]


class Character(BaseModel):
    name: Annotated[str, Field(min_length=2, max_length=12)]
    age: Annotated[int, Field(ge=18, le=300)]
    armor: Literal["leather", "chainmail", "plate"]
    weapon: Literal["sword", "axe", "mace", "spear", "bow", "crossbow"]
    strength: Annotated[int, Field(ge=1, le=100)]


class Sentiment(StrEnum):
    very_negative = "very_negative"
    negative = "negative"
    neutral = "neutral"
    positive = "positive"
    very_positive = "very_positive"


class Review(BaseModel):
    category: Literal["electronics", "clothing", "home_and_kitchen", "books", "toys"]
    sentiment: Sentiment
    rating: Annotated[int, Field(ge=1, le=5)]
    would_buy_again: bool


class WeatherArguments(BaseModel):
    location: Annotated[str, Field(min_length=2, max_length=24)]
    unit: Literal["celsius", "fahrenheit"]


class WeatherCall(BaseModel):
    name: Literal["get_weather"]
    arguments: WeatherArguments


class Ticket(BaseModel):
    title: ShortText
    severity: Literal["low", "medium", "high", "critical"]
    component: Literal["login", "payments", "search", "notifications"]
    reproducible: bool
    affected_users: Annotated[int, Field(ge=0, le=100000)]
    assignee: str | None = Field(max_length=20)


class Event(BaseModel):
    title: ShortText
    starts_on: date
    ends_on: date
    location: ShortText
    is_online: bool


class LineItem(BaseModel):
    description: Annotated[str, Field(min_length=1, max_length=20)]
    quantity: Annotated[int, Field(ge=1, le=99)]
    unit_price: Annotated[float, Field(gt=0, lt=1000)]


class Invoice(BaseModel):
    invoice_number: Annotated[str, Field(pattern=r"^INV-\d{4}$")]
    customer: ShortText
    currency: Literal["EUR", "USD", "GBP"]
    items: Annotated[list[LineItem], Field(min_length=1, max_length=2)]
    is_paid: bool


class Address(BaseModel):
    street: ShortText
    house_number: Annotated[int, Field(ge=1, le=999)]
    postal_code: Annotated[str, Field(pattern=r"^\d{5}$")]
    city: Annotated[str, Field(min_length=1, max_length=20)]
    country: Literal["Germany", "France", "Spain", "Italy"]


class Contact(BaseModel):
    full_name: ShortText
    address: Address
    newsletter: bool


class Recipe(BaseModel):
    dish: ShortText
    servings: Annotated[int, Field(ge=1, le=12)]
    difficulty: Literal["easy", "medium", "hard"]
    is_vegetarian: bool
    ingredients: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=15)]], Field(min_length=2, max_length=4)
    ]


class SpamVerdict(BaseModel):
    is_spam: bool
    reason: ShortText
    confidence_percent: Annotated[int, Field(ge=0, le=100)]


class Step(BaseModel):
    action: Literal["open", "click", "type", "wait"]
    target: Annotated[str, Field(pattern=r"^#[a-z]{2,10}$")]
    then: Step | None = None


REQUESTS: tuple[Request[BaseModel], ...] = (
    Request(
        "Generate a character for a role playing game: a veteran dwarf warrior who guards a "
        "mountain pass. Answer as JSON with name, age, armor, weapon and strength.",
        Character,
        max_tokens=64,
    ),
    Request(
        'Classify this review as JSON. Review: "The headphones sound great and the battery lasts '
        'for two days, but the left ear cup broke after three weeks."',
        Review,
        max_tokens=64,
    ),
    Request(
        "You can call get_weather(location, unit). The user says: What is the weather like in "
        "Lisbon today? I prefer Celsius. Answer with the function call as JSON.",
        WeatherCall,
        max_tokens=64,
    ),
    Request(
        "Write a bug ticket as JSON: since this morning nobody can pay by card, about 1200 "
        "customers are affected, it happens every time, and nobody works on it yet.",
        Ticket,
        max_tokens=96,
    ),
    Request(
        "Make a calendar entry as JSON: the summer workshop in Lyon, from the third to the fifth "
        "of July 2025, at the conference centre.",
        Event,
        max_tokens=96,
    ),
    Request(
        "Make up an invoice for two boxes of paper and a stapler, in euros, paid. Answer as JSON.",
        Invoice,
        max_tokens=128,
    ),
    Request(
        "Extract the contact as JSON: Maria Schmidt lives at Gartenstrasse 12, 80331 Munich, "
        "Germany, and wants to hear from us.",
        Contact,
        max_tokens=128,
    ),
    Request(
        "Give me a recipe for tomato soup for four as JSON: dish, servings, difficulty, whether "
        "it is vegetarian, and the ingredients.",
        Recipe,
        max_tokens=96,
    ),
    Request(
        'Is this message spam? Message: "Congratulations! You have been selected to receive a '
        'free phone. Click the link within 24 hours." Answer as JSON.',
        SpamVerdict,
        max_tokens=64,
    ),
    Request(
        "Describe how to log in on a web page as JSON: open the page, type the name, click the "
        "button. Each step has an action, a target and the step that comes then.",
        Step,
        max_tokens=96,
    ),
)
"""All of their answers must be valid, whatever the model makes of the prompts."""
