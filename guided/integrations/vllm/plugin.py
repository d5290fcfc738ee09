"""Adds the backend to vLLM: the name ``guided`` among its backends, and what it does.

vLLM's list of backends is closed, so the plugin patches three places, each once per process::

    vllm.config.StructuredOutputsConfig.backend         takes one more name
    vllm.SamplingParams._validate_structured_outputs    a request is checked (API servers)
    vllm.v1.structured_output.StructuredOutputManager   the engine makes its backend, and matchers

Under any other name all three work as before. docs/decisions/0025 says why these.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from guided.errors import GuidedError

__all__ = ["NAME", "VERSIONS", "register"]

NAME: Final = "guided"
"""The name of the backend in vLLM's options."""

VERSIONS: Final = ((0, 31), (0, 33))
"""The first and the last version of vLLM that this was tested with, including their patches."""

_log: Final = logging.getLogger(__name__)
_MARK: Final = "_guided"
"""Set on what was patched, so that it is not patched twice."""
_VALIDATES: Final = ("self", "model_config", "structured_outputs_config", "tokenizer")


def register() -> None:
    """Register the backend in this process; vLLM calls it by its entry point, repeatedly.

    An untested version is left unchanged, with a warning: there vLLM refuses a request for the
    backend, and nothing else is affected.
    """
    import vllm

    problem = _unknown_version(vllm.__version__)
    if problem is None:
        from vllm.config import StructuredOutputsConfig
        from vllm.sampling_params import SamplingParams

        problem = _unknown_shape(StructuredOutputsConfig, SamplingParams)
    if problem is not None:
        first, last = (".".join(map(str, version)) for version in VERSIONS)
        _log.warning(
            "%s, so there is no structured outputs backend %r; install vllm %s to %s, or a newer "
            "guided-decoding",
            problem,
            NAME,
            first,
            last,
        )
        return
    if not hasattr(SamplingParams, _MARK):
        _add_name(StructuredOutputsConfig)
        _add_check(SamplingParams)
        _add_backend()
        setattr(SamplingParams, _MARK, True)


def _unknown_version(version: str) -> str | None:
    """Return why a version is not supported, ``None`` if it is."""
    parts = version.split(".")
    known = all(part.isdigit() for part in parts[:2]) and len(parts) > 1
    if known and VERSIONS[0] <= (int(parts[0]), int(parts[1])) <= VERSIONS[1]:
        return None
    return f"guided was not tested with vllm {version}"


def _unknown_shape(config: Any, params: Any) -> str | None:
    """Return why this vLLM differs from the published one, ``None`` if it does not."""
    validates = getattr(params, "_validate_structured_outputs", None)
    known = validates is not None and tuple(inspect.signature(validates).parameters) == _VALIDATES
    names = get_args(config.__annotations__.get("backend"))
    if known and "auto" in names:
        return None
    return "this vllm was changed where guided reaches into it"


def _add_name(config: Any) -> None:
    from pydantic.dataclasses import rebuild_dataclass

    names = (*get_args(config.__annotations__["backend"]), NAME)
    wider: Any = Literal[names]
    config.__annotations__["backend"] = wider
    config.__dataclass_fields__["backend"].type = wider
    config.__pydantic_fields__["backend"].annotation = wider
    rebuild_dataclass(config, force=True)


def _add_check(params: Any) -> None:
    theirs: Callable[..., None] = params._validate_structured_outputs

    @functools.wraps(theirs)
    def validate(
        self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any
    ) -> None:
        asked = self.structured_outputs
        if asked is None or getattr(structured_outputs_config, "backend", None) != NAME:
            theirs(self, model_config, structured_outputs_config, tokenizer)
            return
        from vllm.exceptions import VLLMValidationError

        from guided.integrations.vllm.requests import check_request

        try:
            check_request(asked, model_config, tokenizer)
        except GuidedError as error:
            raise VLLMValidationError(str(error), parameter="structured_outputs") from error

    params._validate_structured_outputs = validate


def _add_backend() -> None:
    from vllm.v1.structured_output import StructuredOutputManager
    from vllm.v1.structured_output.backend_types import (
        StructuredOutputBackend,
        StructuredOutputGrammar,
    )

    theirs: Callable[..., None] = StructuredOutputManager.__init__

    @functools.wraps(theirs)
    def initialise(self: Any, vllm_config: Any) -> None:
        theirs(self, vllm_config)
        if vllm_config.structured_outputs_config.backend != NAME:
            return
        if vllm_config.model_config.skip_tokenizer_init:
            return  # then every constraint is refused: no tokenizer, no masks
        from guided.integrations.vllm.backend import GuidedBackend, GuidedGrammar
        from guided.integrations.vllm.forced_runs import drafts_forced_runs, runs_first

        StructuredOutputBackend.register(GuidedBackend)
        StructuredOutputGrammar.register(GuidedGrammar)
        size = vllm_config.model_config.get_vocab_size()
        self.backend = GuidedBackend(vllm_config, self.tokenizer, size)
        if drafts_forced_runs(vllm_config):
            self.validate_tokens = runs_first(self, self.validate_tokens)
        if self.reasoner_cls is None or self.enable_in_reasoning:
            self._create_grammar = _ending_in_time(self._create_grammar)

    setattr(StructuredOutputManager, "__init__", initialise)  # noqa: B010 - mypy takes no other


def _ending_in_time(create: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """End answers before they are cut off; only the request says where that is.

    If a model reasons first, the number of tokens left for its answer is unknown.
    """

    @functools.wraps(create)
    def created(request: Any) -> Any:
        grammar = create(request)
        grammar.end_within(request.sampling_params.max_tokens)
        return grammar

    return created
