"""Let the default model write a text of every grammar of the library, and parse each with Lark.

Exits with 0 only if Lark's own Earley parser accepts every answer.
"""

from __future__ import annotations

import sys

from lark import Lark as LarkParser
from lark.exceptions import LarkError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from examples.serving import served
from guided import Answer, Client, Lark, Request, grammar_names

_PROMPTS = {
    "arithmetic": "Write the volume of a cylinder of radius 3 and height 7 as a formula.",
    "csv": "Three cities with their country and population, as CSV with a header.",
    "email": "What would the e-mail address of Ada Lovelace be?",
    "graphql_query": "A GraphQL query for the names and prices of all products.",
    "iso8601": "When did people first walk on the Moon?",
    "json": "Describe a cat as a JSON object with name, age and colours.",
    "json_lines": "Log three events of a web server, one JSON object on each line.",
    "lark": "A Lark grammar for a list of numbers in brackets.",
    "markdown_table": "Compare tea and coffee in a Markdown table.",
    "python_expression": "A Python expression for the squares of all even numbers below 100.",
    "semver": "What is the version after 1.4.2 if nothing old breaks?",
    "sql_select": "The five customers who spent most in 2024, in SQL.",
    "url": "Where is the documentation of Python?",
    "xml_fragment": "Describe a book in XML.",
}
_TOKENS = 80
"""Most tokens of an answer: Earley takes long for long ones."""

console = Console(width=150)


def main() -> int:
    names = grammar_names()
    requests = [
        Request(_PROMPTS[name], grammar=Lark.named(name), max_tokens=_TOKENS) for name in names
    ]
    with served(console) as address, Client(address) as client:
        outcomes = client.batch(requests)
    table = Table("grammar", "answer", "finish", "tokens", "forced", "parsed by Lark")
    failed = 0
    for name, outcome in zip(names, outcomes, strict=True):
        if not isinstance(outcome, Answer):
            table.add_row(name, Text(str(outcome)), type(outcome).__name__, "", "", "no answer")
            failed += 1
            continue
        fault = _fault(name, outcome.text)
        failed += fault is not None
        table.add_row(
            name,
            Text(outcome.text),
            outcome.finish_reason.value,
            str(outcome.usage.output_tokens),
            str(outcome.usage.forced_tokens),
            Text(fault or "yes"),
        )
    console.print(table)
    console.print(f"{len(names) - failed} of {len(names)} answers are parsed by Lark")
    return 1 if failed else 0


def _fault(name: str, text: str) -> str | None:
    """Return Lark's error for a text; ``None`` if it accepts the text."""
    parser = LarkParser(Lark.named(name).text, parser="earley", lexer="dynamic_complete")
    try:
        parser.parse(text)
    except LarkError as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
