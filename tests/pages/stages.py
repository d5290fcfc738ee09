"""The surroundings in which the blocks of a page run, for pages that need more than a client.

Any other page runs with ``guided``, ``client`` and the shortest answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import trustme
from pydantic import BaseModel, Field

import guided
from guided import testing
from guided.masks.mask import Mask, tokens_of
from guided.spec.tool_format import HERMES
from guided.testing.walking_model import Reply

__all__ = ["ELSEWHERE", "NOWHERE", "STAGES", "Stage"]

Names = dict[str, Any]


class Ticket(BaseModel):
    title: str
    urgent: bool


class Recipe(BaseModel):
    title: str
    steps: list[str]


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)


def _nothing() -> Names:
    return {}


def _any_end(names: Names, server: testing.Server) -> None:
    """Check nothing more than that the page has run."""


@dataclass(frozen=True)
class Stage:
    replies: Sequence[Reply] = ()
    """The first answers of the server; those after them are the shortest ones."""
    given: Callable[[], Names] = _nothing
    """Makes the files that the page reads, in the current folder; returns the names it knows."""
    shows: str = ""
    """A part of the printed text."""
    ends: Callable[[Names, testing.Server], None] = _any_end
    """Checks the names that the page leaves, and the server that it has called."""
    is_alone: bool = False
    """Whether the page changes the process that it runs in, and needs one of its own."""


def _readme_ends(names: Names, server: testing.Server) -> None:
    assert names["answer"].value == names["Ticket"].model_validate_json(_OUTAGE)
    assert names["said"].choices[0].message.parsed == names["answer"].value
    assert len(server.requests) == 2


def _adapters() -> Names:
    return {"Query": {"type": "string", "pattern": "SELECT .*"}}


def _adapters_end(names: Names, server: testing.Server) -> None:
    assert names["answer"].text.startswith('"SELECT ')
    assert [request.adapter for request in server.requests] == ["sql"]


def _client() -> Names:
    prompts = ["Nobody can pay by card.", "The printer burns."]
    requests = [guided.Request(prompt, Ticket) for prompt in prompts]
    return {"Ticket": Ticket, "prompt": prompts[0], "prompts": prompts, "requests": requests}


def _client_ends(names: Names, _: testing.Server) -> None:
    (remaining,) = names["remaining"]
    (cancelled,) = names["answer"].tool_calls
    assert cancelled.value() == "order 7 is cancelled"
    failed = names["requests"].index(remaining)
    assert isinstance(names["outcomes"][1 - failed].value, Ticket)
    assert names["one"].index in (0, 1)


def _grammar_service_ends(names: Names, server: testing.Server) -> None:
    assert names["report"].verdicts
    assert names["found"].fit is guided.TextFit.PREFIX
    with guided.Client(server.address) as names["client"]:  # the client of the page is closed
        assert isinstance(names["ask"]("Card payments fail.").value, Ticket)


def _grammars() -> Names:
    schema = '{"type": "object", "properties": {"city": {"type": "string"}}}'
    return {"weather_schema": schema, "search_schema": schema}


def _masks() -> Names:
    # Loaded here: the other pages need no transformers.
    from tests.kit.built_tokenizers import BUILT, loaded

    tokenizer = loaded(BUILT["built like GPT-2"]())
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>"})
    tokenizer.save_pretrained("model")
    draw = np.random.default_rng(0)

    def choose(mask: Mask) -> int:
        return int(draw.choice(tokens_of(mask)))

    return {"choose": choose}


def _masks_end(names: Names, _: testing.Server) -> None:
    person = json.loads(names["compiler"].vocabulary.decode(names["answer"]))
    assert {"name", "age"} <= person.keys()


def _certificates() -> Names:
    authority = trustme.CA()
    mine = authority.issue_cert("me.example")
    authority.cert_pem.write_to_path("ca.pem")
    mine.cert_chain_pems[0].write_to_path("me.pem")
    mine.private_key_pem.write_to_path("me.key")
    return {"token": "t" * 32}


def _all_tests_pass(names: Names, _: testing.Server) -> None:
    tests = [name for name in names if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        names[test]()


def _using() -> Names:
    shown: list[tuple[object, ...]] = []
    return {
        "BaseModel": BaseModel,
        "Person": Person,
        "Recipe": Recipe,
        "Ticket": Ticket,
        "prompt": "Nobody can pay by card.",
        "shown": shown,
        "show": lambda *parts: shown.append(parts),
        "look_up": lambda city, days: f"{city}: wet" if days == 1 else city,
    }


def _using_ends(names: Names, server: testing.Server) -> None:
    shown = names["shown"]
    assert ("Da", None) in shown or ("D", None) in shown
    assert shown[-1] == ("Dal", ["Rinse.", "Boil."])
    told = [
        message.content
        for request in server.requests
        if isinstance(request.prompt, tuple)
        for message in request.prompt
        if message.role == "tool"
    ]
    assert told == ["Oslo: wet"]
    assert len(names["answer"].candidates) == 2


_OUTAGE: Final = '{"title":"No card payments","severity":"high","affected_users":9000}'
_SHOWN: Final = "title='No card payments' severity='high' affected_users=9000"
_RECIPE: Final = '{"title":"Dal","steps":["Rinse.","Boil."]}'
_CALL: Final = '<tool_call>\n{"name": "weather", "arguments": {"city":"Oslo"}}\n</tool_call>'
_CANCEL: Final = '<tool_call>\n{{"name": "cancel", "arguments": {{"order":{}}}}}\n</tool_call>'
_USING: Final = (
    '{"name":"Ada","age":36}',
    *(_CALL, "It rains."),
    *(_RECIPE, _RECIPE, _RECIPE),
)
_USING_SHOWS: Final = (
    "1 23\n"
    "It rains.\n"
    f"{_RECIPE}"
    "/title Dal\n/steps/0 Rinse.\n/steps/1 Boil.\n/steps ['Rinse.', 'Boil.']\n"
    " {'title': 'Dal', 'steps': ['Rinse.', 'Boil.']}\n"
)

_CLIENT: Final[Sequence[Reply]] = (
    *[Ticket(title="Cards", urgent=True)] * 3,
    *(_CANCEL.format(5), _CANCEL.format(7)),
    guided.InternalServiceError("a bug"),
    *[Ticket(title="Cards", urgent=True)] * 3,
    HERMES.call("Weather", '{"city":"Oslo"}'),
    "Which Oslo?",
)

STAGES: Final[Mapping[str, Stage]] = {
    "README.md": Stage((_OUTAGE, _OUTAGE), shows=f"{_SHOWN}\ncomplete\n", ends=_readme_ends),
    "docs/adapters.md": Stage(given=_adapters, ends=_adapters_end),
    "docs/client.md": Stage(
        _CLIENT,
        given=_client,
        shows="0: calls Weather\n0: city='Oslo'\n0: stop, 74 tokens\n",
        ends=_client_ends,
    ),
    "docs/continuing.md": Stage(
        (' Lovelace", "age": 36}',),
        given=lambda: {"Person": Person},
        shows="name='Ada Lovelace' age=36",
    ),
    "docs/grammar-service.md": Stage(given=lambda: {"Ticket": Ticket}, ends=_grammar_service_ends),
    "docs/grammars.md": Stage(given=_grammars),
    "docs/mask-api.md": Stage(given=_masks, ends=_masks_end),
    "docs/observability.md": Stage(
        given=lambda: {"Ticket": Ticket, "prompt": "The printer burns."}, is_alone=True
    ),
    "docs/openai.md": Stage(shows="urgent=False"),
    "docs/quick-start.md": Stage(shows="/title \n"),
    "docs/security-settings.md": Stage(given=_certificates),
    "docs/testing.md": Stage(ends=_all_tests_pass),
    "docs/using.md": Stage(_USING, _using, shows=_USING_SHOWS, ends=_using_ends),
}
"""The stages by page."""
ELSEWHERE: Final[Mapping[str, str]] = {
    "docs/anthropic.md": "tests/clients/test_clients.py",  # `make test-clients`
    "docs/candidates.md": "tests/service/test_scores.py",  # a model, whose answers have scores
    "docs/heads.md": "tests/engine/test_load_heads.py",  # an engine with heads
    "docs/hosts/llama-cpp-python.md": "tests/integrations/test_one_answer.py",
    "docs/hosts/mlx-lm.md": "tests/hosts/programs/mlx_answers.py",  # `make test-mlx`
    "docs/hosts/transformers.md": "tests/integrations/test_transformers.py",  # a model
    "docs/reasoning.md": "tests/service/test_reasoning.py",  # a model that thinks
}
"""By page, the test that runs its blocks, which need things slow to make or to be installed."""
NOWHERE: Final[Mapping[str, str]] = {
    "docs/hosts/vllm.md": "vLLM has an environment of its own, and LLM(...) loads a model of it",
}
"""By page, why its blocks are not run."""
