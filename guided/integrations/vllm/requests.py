"""Reads the constraint of a vLLM request, and checks that it can be enforced."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from guided.compiler import Compiler
from guided.errors import InvalidConstraintError, RequestError, UnsupportedFeatureError
from guided.integrations.json_form import JsonForm
from guided.spec import Choice, Regex, Structure
from guided.spec.composition import JsonObject
from guided.spec.grammar_format import grammar_of
from guided.spec.structural_tags import read_structural_tag

__all__ = ["Asked", "ModelConfig", "check_request", "compiler_of", "structure_of"]


class Asked(Protocol):
    """vLLM's ``StructuredOutputsParams``: one of its first six fields is set."""

    json: str | dict[str, Any] | None
    regex: str | None
    choice: list[str] | None
    grammar: str | None
    json_object: bool | None
    structural_tag: str | None
    disable_any_whitespace: bool
    disable_additional_properties: bool
    whitespace_pattern: str | None
    _backend: str | None

    def __post_init__(self) -> None: ...


class ModelConfig(Protocol):
    """The part of vLLM's configuration of a model that is used here."""

    def get_vocab_size(self) -> int: ...

    def try_get_generation_config(self) -> Mapping[str, Any]: ...


def check_request(asked: Asked, model_config: ModelConfig, tokenizer: Any) -> None:
    """Compile the constraint of a request, and set in the request which backend serves it.

    Raises a GuidedError for what cannot be enforced, which is reported to the caller before the
    engine gets the request. An engine in another process compiles it once more.
    """
    if getattr(model_config, "is_diffusion", False):
        raise UnsupportedFeatureError("a diffusion model does not write from left to right")
    if tokenizer is None:
        raise RequestError(
            "without a tokenizer there are no masks",
            field="structured_outputs",
            hint="start vllm without --skip-tokenizer-init",
        )
    form = JsonForm.of_environment()
    _check_fields(asked, form)
    kind, text = _key(asked)
    compiler_of(tokenizer, model_config).compile(structure_of(kind, text, form))
    asked._backend = "guided"
    asked.__post_init__()


def _check_fields(asked: Asked, form: JsonForm) -> None:
    """Raise UnsupportedFeatureError for an option that would be ignored."""
    refused = {
        "whitespace_pattern": asked.whitespace_pattern is not None,
        "disable_any_whitespace": asked.disable_any_whitespace and form.options.whitespace != 0,
        "disable_additional_properties": asked.disable_additional_properties
        and not form.closes_objects,
    }
    for name, is_asked in refused.items():
        if is_asked:
            raise UnsupportedFeatureError(
                f"{name} is not honoured",
                hint="leave it out; GUIDED_JSON says for all requests of a server how JSON is "
                "written",
            )
    if asked._backend not in (None, "guided"):
        raise RequestError(
            f"the request names the backend {asked._backend!r}, and the server's is 'guided'",
            field="structured_outputs",
            hint="leave it out",
        )


def _key(asked: Asked) -> tuple[str, str]:
    """Return the kind of a constraint and its text, as vLLM passes them to the engine."""
    if asked.json is not None:
        return "json", asked.json if isinstance(asked.json, str) else json.dumps(asked.json)
    if asked.json_object is not None:
        if asked.json_object is not True:
            raise InvalidConstraintError("json_object is false", hint="leave it out")
        return "json_object", ""
    if asked.choice is not None:
        return "choice", json.dumps(asked.choice)
    for kind in ("regex", "grammar", "structural_tag"):
        if (text := getattr(asked, kind)) is not None:
            return kind, text
    raise InvalidConstraintError("no constraint is given")


def structure_of(kind: str, text: str, form: JsonForm) -> Structure:
    """Return the constraint of a kind, the name of vLLM's field; raises ConstraintError."""
    match kind:
        case "json":
            return form.schema(text)
        case "json_object":
            return JsonObject(form.options)
        case "regex":
            return Regex(text)
        case "choice":
            return Choice(json.loads(text))
        case "grammar":
            return grammar_of(text)
        case "structural_tag":
            return read_structural_tag(text, form.schema)
    raise UnsupportedFeatureError(
        f"structured outputs of the kind {kind!r} are not known", hint="update guided-decoding"
    )


_compilers: Final[WeakKeyDictionary[Any, Compiler]] = WeakKeyDictionary()
_making: Final = threading.Lock()


def compiler_of(tokenizer: Any, model_config: ModelConfig) -> Compiler:
    """Return a tokenizer's compiler, one per process; raises ModelError if none can be made."""
    with _making:
        if tokenizer not in _compilers:
            _compilers[tokenizer] = Compiler(
                tokenizer,
                end_ids=_end_ids(model_config.try_get_generation_config()),
                num_logits=model_config.get_vocab_size(),
            )
        return _compilers[tokenizer]


def _end_ids(generation_config: Mapping[str, Any]) -> Iterable[int]:
    """Return the tokens that the host stops at, in addition to the tokenizer's own."""
    ends = generation_config.get("eos_token_id")
    if ends is None:
        return ()
    return (ends,) if isinstance(ends, int) else ends
