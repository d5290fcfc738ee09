"""Loading a model and building the engine around it, or telling beforehand what that would take."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from guided.constraint import ConstraintCompiler
from guided.decoding import CostCurve, Drafter
from guided.drafters.heads.load import HeadSet, read_heads
from guided.drafters.named import (
    check_drafters,
    default_drafters,
    describe_drafters,
    make_drafters,
)
from guided.engine.cache_size import CacheRequest, StepLimits
from guided.engine.call_costs import costs_here
from guided.engine.engine import Engine
from guided.engine.formats import WEIGHT_DTYPES, check_formats, check_model
from guided.engine.memory_plan import MemoryPlan, plan_memory, plan_model
from guided.engine.scoring import Judge
from guided.errors import GuidedError, RequestError
from guided.masks.vocabulary import Vocabulary
from guided.model.cpu import WeightFormat, multiplies, why_not
from guided.model.device import AUTO, CPU, choose_device, device_text
from guided.model.load import (
    LoadedModel,
    ModelTexts,
    load_decoder,
    load_model,
    load_texts,
    native_dtype,
    why_not_read,
)
from guided.model.model_files import ModelFiles, find_model
from guided.model.progress import Progress, RichProgress
from guided.model.prompt import render_prompt
from guided.model.runner import ModelRunner
from guided.spec import Forcing, GenerationRequest, JsonSchema, Sampling

__all__ = ["WIDEST_DRAFT", "inspect_memory", "load_engine", "physical_cores"]

WIDEST_DRAFT = 32
"""Tokens drafted for one sequence in one step, at most."""
_WARM_UP = """{
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "kind": {"enum": ["one", "two"]}
    },
    "required": ["name", "kind"]
}"""
_WARM_UP_TOKENS = 24
_FORMATS = {torch.bfloat16: WeightFormat.BF16, torch.float32: WeightFormat.FP32}
_log = logging.getLogger(__name__)
_Report = Callable[[int], None]


def load_engine(
    model: str | None = None,
    *,
    dtype: str | None = None,
    device: str = AUTO,
    threads: int | None = None,
    max_batch: int = 16,
    cache_tokens: int | None = None,
    kv_memory: int | None = None,
    kv_dtype: str | None = None,
    step_tokens: int = 512,
    reuse_prefixes: bool = True,
    drafts: bool = True,
    drafters: Sequence[str] | None = None,
    heads: Sequence[str] = (),
    reward_model: str | None = None,
    progress: Progress | None = None,
) -> Engine:
    """Load a model (``None``: the default one) and make it ready for requests.

    ``dtype`` is that of the weights (``None``: the fastest of bfloat16, float16 and float32 on the
    device; ``int8``, on the CPU alone, is smaller and faster still, and a little less exact),
    ``device`` where the model computes and its cache is (see ``choose_device``), ``threads`` those
    of a model call on the CPU (``None``: one for each physical core), ``cache_tokens`` the tokens
    that all running requests may hold, or ``kv_memory`` the bytes for them (neither: see
    docs/models.md), ``kv_dtype`` how keys and values are kept (``None``: as they are computed;
    ``int8``), ``step_tokens`` the most that one model call computes, drafts aside.
    ``reuse_prefixes`` keeps what was computed of prompts for requests that begin alike. ``drafts``
    lets the engine draft tokens, as many as pay by what model calls cost here, which is measured
    at the first start and kept in the cache folder; ``drafters`` names what drafts them, in this
    order (``None``: see ``default_drafters``). ``heads`` are folders of Medusa and EAGLE-3 heads
    for this model, which draft after these (see docs/heads.md). ``reward_model`` is the folder of a
    model that ranks answers (``guided.model.reward``), on the same device.
    Raises ``ModelError`` before the weights are read where memory would be short.
    """
    where = choose_device(device)
    check_formats(dtype, kv_dtype, where)
    # What is wrong with the settings is told before anything is fetched.
    if threads is not None and threads < 1:
        raise RequestError(f"threads {threads!r} is below 1", field="threads")
    if drafters is None:
        drafters = default_drafters(reuse_prefixes=reuse_prefixes)
    check_drafters(drafters)
    limits = StepLimits(max_batch, step_tokens, widest_draft=WIDEST_DRAFT if drafts else 0)
    asked = CacheRequest(cache_tokens, kv_memory, kv_dtype == "int8", limits)
    progress = progress or RichProgress()
    torch.set_num_threads(threads or physical_cores())
    files = find_model(model, progress)
    check_model(files, dtype)
    head_set = read_heads(heads, files, cache_tokens=cache_tokens, drafts=drafts)
    # The judge is loaded first, so that the plan counts with what it leaves of the memory.
    judge = _load_judge(reward_model, where, progress)
    parts = _load_parts(files, dtype, asked, where, head_set, progress)
    drafting: tuple[Drafter, ...] = ()
    if drafts:
        vocabulary = parts.texts.vocabulary
        own = head_set.drafters(parts.runner, len(vocabulary))
        drafting = (*make_drafters(drafters, vocabulary), *own)
        progress.note(f"drafters: {describe_drafters(drafters)}")
    engine = _build_engine(parts, asked, drafting, judge, reuse_prefixes=reuse_prefixes)
    with progress.step("warming up"):
        _warm_up(engine)
    _freeze_garbage()
    return engine


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts that an engine is built of."""

    texts: ModelTexts
    compiler: ConstraintCompiler
    runner: ModelRunner
    plan: MemoryPlan
    costs: CostCurve | None


def _load_judge(folder: str | None, device: torch.device, progress: Progress) -> Judge | None:
    if folder is None:
        return None
    from guided.model.reward import load_reward_model

    with progress.step(f"loading {folder}"):
        return load_reward_model(folder, device=device)


def _load_parts(
    files: ModelFiles,
    dtype: str | None,
    asked: CacheRequest,
    device: torch.device,
    heads: HeadSet,
    progress: Progress,
) -> _Parts:
    """Plan the memory, load the model, and time its calls where tokens are to be drafted."""
    # Planned before the weights are read, so that too large a model is refused at once.
    beside = heads.nbytes(WEIGHT_DTYPES.get(str(dtype)) or native_dtype(device), device)
    footprint, plan = plan_model(files, dtype, asked, device, beside=beside)
    progress.note(f"device: {device_text(device)}")
    progress.note(str(plan))
    texts, make_runner = _loaded(files, dtype, device, asked, progress, streams=footprint.streams)
    size = files.checkpoint.nbytes
    with progress.step("preparing kernels and packing weights", total_bytes=size) as report:
        compiler, runner = _prepared(texts.vocabulary, partial(make_runner, report))
    context_window = runner.context_window(texts.context_window)
    if context_window < texts.context_window:
        _log.warning(
            "texts of %s end at %d tokens, not %d: beyond, its rotary positions depend on their "
            "length",
            *(texts.name, context_window, texts.context_window),
        )
    # The config may not have told what the layers do keep; now they are there to be asked.
    shape = runner.shape
    plan = plan_memory(footprint, asked.size(shape.layers, shape.windows, shape.dtype), asked)
    costs = None
    if asked.limits.widest_draft:
        with progress.step("timing model calls"):
            costs = costs_here(runner, context_window, files, footprint)
    return _Parts(texts, compiler, runner, plan, costs)


def _build_engine(
    parts: _Parts,
    asked: CacheRequest,
    drafters: Sequence[Drafter],
    judge: Judge | None,
    *,
    reuse_prefixes: bool,
) -> Engine:
    texts, limits = parts.texts, asked.limits
    return Engine(
        model_name=texts.name,
        runner=parts.runner,
        vocabulary=texts.vocabulary,
        context_window=texts.context_window,
        render=partial(render_prompt, texts),
        start=parts.compiler.start,
        max_batch=limits.max_batch,
        cache_tokens=parts.plan.cache_tokens,
        step_tokens=limits.step_tokens,
        block_size=limits.block_size,
        reuse_prefixes=reuse_prefixes,
        drafters=drafters,
        widest_draft=limits.widest_draft,
        costs=parts.costs,
        judge=judge,
    )


def _freeze_garbage() -> None:
    """Exempt all objects that exist now from garbage collection.

    To look through all of them would delay a step by some tenths of a second. What an earlier
    engine left behind is collected first; where the collector is off there was none.
    """
    if gc.isenabled():
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def _loaded(
    files: ModelFiles,
    dtype: str | None,
    device: torch.device,
    asked: CacheRequest,
    progress: Progress,
    *,
    streams: bool,
) -> tuple[ModelTexts, Callable[[_Report], ModelRunner]]:
    """What speaks to a model, and what makes its runner, given where to report the bytes read.

    Who computes the forward pass is settled here.
    """
    kept = WEIGHT_DTYPES.get(str(dtype)) or native_dtype(device)
    chosen = WeightFormat.INT8 if dtype == "int8" else _FORMATS.get(kept)
    can_be_own = chosen is not None and multiplies(chosen) and not asked.is_quantised
    if can_be_own and device == CPU and why_not_read(files) is None:
        texts = load_texts(files, progress)

        # Our own decoder reads its weights from the files, without the module of transformers.
        def read(report: _Report) -> ModelRunner:
            assert chosen is not None
            decoder = load_decoder(files, chosen, dtype=kept, streams=streams, report=report)
            return ModelRunner(decoder, vocabulary_size=len(texts.vocabulary))

        return texts, read
    loaded = load_model(files, dtype=kept, device=device, progress=progress)

    def take(report: _Report) -> ModelRunner:
        report(files.checkpoint.nbytes)
        return ModelRunner(
            loaded.module,
            vocabulary_size=len(loaded.vocabulary),
            weights=WeightFormat.INT8 if dtype == "int8" else _own_format(loaded, asked),
            streams=streams,
            quantise_cache=asked.is_quantised,
        )

    return loaded, take


def _prepared(
    vocabulary: Vocabulary, make_runner: Callable[[], ModelRunner]
) -> tuple[ConstraintCompiler, ModelRunner]:
    """What compiles and what computes, side by side: one is Python, the other matrices."""

    def compiling() -> ConstraintCompiler:
        compiler = ConstraintCompiler(vocabulary)
        compiler.rehearse()
        return compiler

    with ThreadPoolExecutor(1) as beside:
        compiler = beside.submit(compiling)
        runner = make_runner()
        return compiler.result(), runner


def _warm_up(engine: Engine) -> None:
    """Make two answers, so that no request waits for machine code to be loaded or made."""
    # One greedy and one sampled, as they choose by different code.
    constraint = JsonSchema(_WARM_UP)
    sampled = Sampling(1.0, top_k=40, top_p=0.9, seed=0)
    for name, forcing, sampling in (
        ("warm-up", Forcing.CANONICAL, Sampling()),
        ("warm-up, strict and sampled", Forcing.STRICT, sampled),
    ):
        request = GenerationRequest(
            prompt="{",
            constraint=constraint,
            max_tokens=_WARM_UP_TOKENS,
            forcing=forcing,
            sampling=sampling,
        )
        try:
            engine.submit(name, request)
        except GuidedError as error:
            # A vocabulary that cannot spell this may spell what users ask for.
            _log.info("no answer to warm up with: %s", error)
    while engine.has_work:
        engine.step()
    # The first request of a caller should find counters at zero.
    engine.count_anew()


def _own_format(loaded: LoadedModel, asked: CacheRequest) -> WeightFormat | None:
    """The format for our own forward pass, ``None`` where the one of transformers is needed."""
    found = _FORMATS.get(loaded.module.dtype)
    reason = "its cache is kept as int8" if asked.is_quantised else why_not(loaded.module)
    if reason is None and (found is None or not multiplies(found)):
        reason = f"this processor does not multiply matrices of {loaded.module.dtype}"
    if reason is None:
        return found
    _log.info("transformers computes the forward pass of %s: %s", loaded.name, reason)
    return None


def physical_cores() -> int:
    """The cores this process may run on, counting the two threads of one core once."""
    allowed = os.sched_getaffinity(0)
    siblings = set()
    for cpu in allowed:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(topology.read_text().strip() if topology.exists() else str(cpu))
    return len(siblings)


def inspect_memory(
    model: str | None = None,
    *,
    dtype: str | None = None,
    cache_tokens: int | None = None,
    kv_memory: int | None = None,
    kv_dtype: str | None = None,
    device: str = AUTO,
) -> tuple[ModelFiles, MemoryPlan]:
    """The model, and the memory that ``load_engine`` would take for it with the same settings."""
    where = choose_device(device)
    check_formats(dtype, kv_dtype, where)
    limits = StepLimits(widest_draft=WIDEST_DRAFT)
    asked = CacheRequest(cache_tokens, kv_memory, kv_dtype == "int8", limits)
    files = find_model(model)
    check_model(files, dtype)
    _, plan = plan_model(files, dtype, asked, where)
    return files, plan
