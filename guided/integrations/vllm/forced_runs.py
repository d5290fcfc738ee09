"""Forced runs as drafts: an opt-in experiment for one version of vLLM.

    --speculative-config '{"model": "guided.integrations.vllm.forced_runs.ForcedRuns",
                           "num_speculative_tokens": 16}'

vLLM calls its drafter in the worker, which has no grammar, and passes the drafts to the manager of
structured outputs in the engine to be checked. There the runs are put before them; back in the
worker they are drafts like any others.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from guided.errors import RequestError, UnsupportedFeatureError
from guided.spec import Forcing

__all__ = [
    "VARIABLE",
    "VERSION",
    "ForcedRuns",
    "ForcedRunsOrNgrams",
    "drafts_forced_runs",
    "forcing_of_environment",
    "runs_first",
]

VERSION: Final = (0, 32)
"""The version of vLLM that this was tested with; any of its patch releases will do."""

VARIABLE: Final = "GUIDED_FORCING"
_WORDS: Final = (Forcing.OFF.value, Forcing.CANONICAL.value)

_NGRAM: Final = (2, 4)
"""The fewest and the most tokens that are looked up in prompt and answer."""
_FOLLOWING: Final = 4
"""How many following tokens are drafted: unlike runs, these guesses are often wrong."""


class ForcedRuns:
    """The drafter named to vLLM: it proposes nothing itself, as the engine adds the runs."""

    def __init__(self, vllm_config: Any) -> None:
        """Raises UnsupportedFeatureError if there would be no runs."""
        import vllm

        if not vllm.__version__.startswith("{}.{}.".format(*VERSION)):
            raise UnsupportedFeatureError(
                f"forced runs were not tried with vllm {vllm.__version__}",
                hint="install vllm {}.{}, or leave out the speculative config".format(*VERSION),
            )
        if vllm_config.structured_outputs_config.backend != "guided":
            raise UnsupportedFeatureError(
                "only the backend 'guided' knows forced runs",
                hint="start vllm with --structured-outputs-config.backend guided",
            )

    def load_model(self, model: Any) -> None:
        """Do nothing: there is no model."""

    def propose(self, sampled_token_ids: Sequence[Any], *_: Any, **__: Any) -> list[list[int]]:
        """Return no drafts for the requests of a step."""
        return [[] for _ in sampled_token_ids]


class ForcedRunsOrNgrams(ForcedRuns):
    """Also drafts with vLLM's n-gram lookup, where there is no run or the drafts extend one."""

    def __init__(self, vllm_config: Any) -> None:
        super().__init__(vllm_config)
        from vllm.v1.spec_decode.ngram_proposer import NgramProposer

        lookup = copy.copy(vllm_config.speculative_config)
        lookup.prompt_lookup_min, lookup.prompt_lookup_max = _NGRAM
        lookup.num_speculative_tokens = min(_FOLLOWING, lookup.num_speculative_tokens)
        config = copy.copy(vllm_config)
        config.speculative_config = lookup
        self._ngrams: Final = NgramProposer(config)

    def propose(self, sampled_token_ids: Sequence[Any], *rows: Any, **_: Any) -> list[list[int]]:
        """Return what followed these tokens before; ``rows`` are all tokens of the requests."""
        drafts: list[list[int]] = self._ngrams.propose(self._ngrams.k, sampled_token_ids, *rows)
        return drafts


def forcing_of_environment(environment: Mapping[str, str] = os.environ) -> Forcing:
    """Read from ``GUIDED_FORCING`` how masks inside runs are narrowed; raises RequestError."""
    said = environment.get(VARIABLE, "").strip() or Forcing.OFF
    if said not in _WORDS:
        raise RequestError(
            f"the variable {VARIABLE} says {said!r}",
            field=VARIABLE,
            hint=f"known are {' and '.join(_WORDS)}",
        )
    return Forcing(said)


def drafts_forced_runs(vllm_config: Any) -> bool:
    """Whether one of these classes is the drafter."""
    config = vllm_config.speculative_config
    return config is not None and str(config.model).rpartition(".")[0] == __name__


def runs_first(manager: Any, check: Callable[..., list[int]]) -> Callable[..., list[int]]:
    """Wrap a manager's ``check`` of drafts to put the forced run of a request before them."""
    most: int = manager.vllm_config.num_speculative_tokens

    def checked(request: Any, spec_tokens: list[int]) -> list[int]:
        drafts = check(request, spec_tokens)
        if not request.use_structured_output or not _is_answering(manager, request):
            return drafts
        run = request.structured_output_request.grammar.forced(
            request.sampling_params.eos_token_id
        )[:most]
        return drafts if drafts[: len(run)] == run else run

    return checked


def _is_answering(manager: Any, request: Any) -> bool:
    """Whether the model has finished its reasoning, which no constraint covers."""
    if manager.reasoner_cls is None or manager.enable_in_reasoning:
        return True
    return request.structured_output_request.reasoning_ended is True
