"""Loads a model and builds the engine around it, or says beforehand what memory that takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
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
from guided.engine.adapters import load_adapters
from guided.engine.cache_size import CacheRequest, StepLimits
from guided.engine.call_costs import load_or_measure_costs
from guided.engine.engine import Engine
from guided.engine.find_files import find_files
from guided.engine.formats import check_formats, compute_dtype
from guided.engine.gc_freeze import freeze_heap
from guided.engine.hardware import Hardware, instruction_set_of
from guided.engine.kernel_process import KernelProcess
from guided.engine.load_drafters import DraftPlan, check_widths, load_drafters, plan_drafters
from guided.engine.load_runner import OnLoss, Report, load_runner
from guided.engine.memory_plan import MemoryPlan, plan_memory, plan_model
from guided.engine.rank_settings import check_ranks, choose_split
from guided.engine.scoring import Judge
from guided.errors import GuidedError, RequestError
from guided.masks.vocabulary import Vocabulary
from guided.model.adapter import Adapter
from guided.model.chat_thoughts import ChatThoughts
from guided.model.device import AUTO, choose_device, device_text
from guided.model.load import ModelTexts
from guided.model.model_files import ModelFiles
from guided.model.parallel.split import Split
from guided.model.progress import Progress, RichProgress
from guided.model.prompt import render_prompt, tool_format
from guided.model.prompt_bound import prompt_bound
from guided.model.runner import ModelRunner
from guided.runtime.cores import usable_cores
from guided.spec import Forcing, GenerationRequest, JsonSchema, Sampling

__all__ = ["WIDEST_DRAFT", "inspect_memory", "load_engine"]

WIDEST_DRAFT = 32
"""The most tokens drafted for one sequence in one step."""
_WARM_UP = """{
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "kind": {"enum": ["one", "two"]}
    },
    "required": ["name", "kind"]
}"""
_WARM_UP_TOKENS = 24
_log = logging.getLogger(__name__)


def load_engine(
    model: str | None = None,
    *,
    dtype: str | None = None,
    device: str = AUTO,
    threads: int | None = None,
    max_batch: int | None = None,
    cache_tokens: int | None = None,
    kv_memory: int | None = None,
    kv_dtype: str | None = None,
    step_tokens: int | None = None,
    reuse_prefixes: bool = True,
    drafts: bool = True,
    drafters: Sequence[str] | None = None,
    draft_models: Sequence[str] = (),
    draft_widths: Sequence[int] | None = None,
    heads: Sequence[str] = (),
    reward_model: str | None = None,
    adapters: Mapping[str, str | Path] | None = None,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    progress: Progress | None = None,
    share: Callable[[], None] | None = None,
    on_loss: OnLoss | None = None,
) -> Engine:
    """Load a model (``None``: the default one) and make it ready for requests.

    ``dtype`` is that of the weights (``None``: the fastest of bfloat16, float16 and float32 on the
    device; others are in docs/models.md), ``device`` where the model and its cache are (see
    ``choose_device``), ``threads`` those of a call on the CPU (``None``: ``usable_cores``).
    ``max_batch`` is how many answers one model call computes for, and ``step_tokens`` how many
    tokens, not counting drafts (``None``: see ``StepLimits``). ``cache_tokens`` are the tokens
    that all running requests may hold, or ``kv_memory`` the bytes for them, kept as ``kv_dtype``
    (``None``: as computed; ``int8``); with ``reuse_prefixes`` those of prompts stay for others.
    ``drafts`` lets the engine draft as many tokens as pay by the cost of model calls here, by
    ``drafters`` in order (``None``: see ``default_drafters``), ``draft_models``, ``draft_widths``
    tokens after each, level by level (docs/draft-models.md), and ``heads``, folders of Medusa and
    EAGLE-3 heads (docs/heads.md). ``reward_model`` is the folder of a model that ranks answers,
    ``adapters`` the folders of LoRA adapters by name (docs/adapters.md). ``tensor_parallel``
    processes compute the model, each a share of its matrices, or ``pipeline_parallel`` each some of
    its layers (docs/parallel.md); ``on_loss`` is called when one is lost, which the next step
    raises otherwise. ``share`` is called when all that engines can share is in memory, and nothing
    has threads yet: it may fork, and the process in which it returns becomes an engine. Only for
    the CPU. Raises ``ModelError`` before the weights are read if memory would be short.
    """
    torch_device = choose_device(device)
    check_formats(dtype, kv_dtype, torch_device)
    split = choose_split(tensor_parallel, pipeline_parallel)
    check_ranks(split, device, torch_device, dtype=dtype, heads=heads, adapters=adapters)
    assert share is None or split.ranks == 1, "ranks cannot be forked"
    # Errors of the settings are raised before anything is fetched.
    threads = _choose_threads(threads, split)
    names = _choose_drafters(drafters, drafts=drafts, reuse_prefixes=reuse_prefixes)
    progress = progress or RichProgress()
    kernel_process = KernelProcess()
    loras = load_adapters(adapters or {}, model, progress)
    widths = check_widths(draft_models, draft_widths, drafts=drafts)
    limits = StepLimits.for_device(
        torch_device, max_batch, step_tokens, widest_draft=WIDEST_DRAFT * drafts
    )
    cache_request = CacheRequest(cache_tokens, kv_memory, kv_dtype == "int8", limits, split)
    # A fork does not copy threads: a process that used several would wait for them for ever.
    torch.set_num_threads(1 if share else threads)
    files = find_files(
        model, dtype, torch_device, progress, by_transformers=cache_request.by_transformers
    )
    head_set = read_heads(heads, files, cache_tokens=cache_tokens, drafts=drafts)
    # The judge is loaded first, so that the plan counts only the memory it leaves.
    judge = _load_judge(reward_model, torch_device, progress)
    plans = plan_drafters(draft_models, dtype, cache_request, torch_device, progress)
    parts = _load_parts(
        *(files, dtype, cache_request, torch_device, plans, head_set, loras),
        *(progress, on_loss, kernel_process),
    )
    drafting: Sequence[Drafter] = ()
    if drafts:
        drafting = _load_drafting(names, plans, widths, head_set, parts, reuse_prefixes, progress)
    build = partial(_build_engine, parts, cache_request, drafting, judge, reuse_prefixes)
    return _start_engine(build, parts, files if drafts else None, share, threads, progress)


def _choose_drafters(
    names: Sequence[str] | None, *, drafts: bool, reuse_prefixes: bool
) -> Sequence[str]:
    """Return the names of the drafters; raises ``RequestError`` for any that cannot draft."""
    if names is None:
        return default_drafters(reuse_prefixes=reuse_prefixes)
    check_drafters(names)
    if names and not drafts:
        raise RequestError(
            "drafters are named, but drafting is off",
            field="drafters",
            hint="leave them out, or let the engine draft",
        )
    return names


def _load_drafting(
    names: Sequence[str],
    plans: Sequence[DraftPlan],
    widths: tuple[int, ...],
    heads: HeadSet,
    parts: _Parts,
    reuse_prefixes: bool,
    progress: Progress,
) -> Sequence[Drafter]:
    """Return the drafters by name, then those of draft models, then those of heads."""
    progress.note(f"drafters: {describe_drafters(names)}")
    vocabulary = parts.texts.vocabulary
    return (
        *make_drafters(names, vocabulary),
        *load_drafters(plans, parts.texts, widths, progress, reuse_prefixes=reuse_prefixes),
        *heads.drafters(parts.runner, len(vocabulary), reuse_prefixes=reuse_prefixes),
    )


def _choose_threads(threads: int | None, split: Split) -> int:
    """Return the threads of a model call; raises ``RequestError`` for an impossible number."""
    if threads is None:
        return max(1, usable_cores() // split.ranks)
    if threads < 1:
        raise RequestError(f"threads {threads!r} is below 1", field="threads")
    return threads


def _start_engine(
    build: Callable[..., Engine],
    parts: _Parts,
    timed: ModelFiles | None,
    share: Callable[[], None] | None,
    threads: int,
    progress: Progress,
) -> Engine:
    """Return a warm engine; its model calls are timed where the model's files are given.

    With ``share``, first rehearses what all engines do, and calls it, which may fork.
    """
    if share is not None:
        with progress.step("rehearsing"):
            _warm_up(build(costs=None))
        freeze_heap(parts.runner)
        share()
        torch.set_num_threads(threads)
    costs = None
    if timed is not None:
        with progress.step("timing model calls"):
            costs = load_or_measure_costs(
                parts.runner, parts.context_window, timed, parts.plan.footprint
            )
    engine = build(costs=costs)
    with progress.step("warming up"):
        _warm_up(engine)
    freeze_heap(parts.runner)
    return engine


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts that an engine is built of."""

    texts: ModelTexts
    compiler: ConstraintCompiler
    runner: ModelRunner
    plan: MemoryPlan
    context_window: int
    """The window of the model, or a shorter one where its texts have to end earlier."""
    adapters: tuple[str, ...]


def _load_judge(folder: str | None, device: torch.device, progress: Progress) -> Judge | None:
    if folder is None:
        return None
    from guided.model.reward import load_reward_model

    with progress.step(f"loading {folder}"):
        return load_reward_model(folder, device=device)


def _load_parts(
    files: ModelFiles,
    dtype: str | None,
    cache_request: CacheRequest,
    device: torch.device,
    draft_plans: Sequence[DraftPlan],
    heads: HeadSet,
    adapters: Sequence[Adapter],
    progress: Progress,
    on_loss: OnLoss | None,
    kernel_process: KernelProcess,
) -> _Parts:
    """Plan the memory, and load the model beside what drafts and its adapters."""
    kept_as = compute_dtype(files, dtype, device, by_transformers=cache_request.by_transformers)
    others = [*(each.nbytes for each in draft_plans), *(each.nbytes for each in adapters)]
    extra_nbytes = heads.nbytes(kept_as, device) + sum(others)
    # Planned before the weights are read, so that too large a model is refused at once.
    plan = plan_model(files, dtype, cache_request, device, extra_nbytes=extra_nbytes)
    instructions = instruction_set_of(device)
    progress.note(f"device: {device_text(device)}{instructions and f', {instructions}'}")
    progress.note(str(plan))
    texts, make_runner = load_runner(
        files,
        dtype,
        device,
        cache_request,
        progress,
        adapters=adapters,
        on_loss=on_loss,
    )
    compiler, runner = _prepare(
        texts.vocabulary, kernel_process, make_runner, progress, files.checkpoint.nbytes
    )
    context_window = runner.context_window(texts.context_window)
    if context_window < texts.context_window:
        _log.warning(
            "texts of %s end at %d tokens, not %d: beyond, its rotary positions depend on their "
            "length",
            *(texts.name, context_window, texts.context_window),
        )
    # The config may not say what the layers keep; now that they are loaded, they do.
    shape = runner.shape
    sizes = [cache_request.size(one, shape.windows, shape.dtype) for one in runner.layers_by_rank]
    plan = plan_memory(plan.footprint, sizes, cache_request)
    names = tuple(adapter.name for adapter in adapters)
    return _Parts(texts, compiler, runner, plan, context_window, names)


def _build_engine(
    parts: _Parts,
    cache_request: CacheRequest,
    drafters: Sequence[Drafter],
    judge: Judge | None,
    reuse_prefixes: bool,
    *,
    costs: CostCurve | None,
) -> Engine:
    """Build the engine from loaded parts, with its cache opened and the runner warmed up."""
    texts, limits = parts.texts, cache_request.limits
    bound = prompt_bound(texts, parts.runner.context_window(texts.context_window))
    engine = Engine(
        model_name=texts.name,
        runner=parts.runner,
        vocabulary=texts.vocabulary,
        context_window=texts.context_window,
        render=partial(render_prompt, texts, bound=bound),
        tool_format=tool_format(texts),
        thinking=ChatThoughts(texts, bound),
        adapters=parts.adapters,
        prompt_bound=bound,
        start=parts.compiler.start,
        constraint_stats=parts.compiler.stats,
        max_batch=limits.max_batch,
        cache_tokens=parts.plan.cache_tokens,
        step_tokens=limits.step_tokens,
        block_size=limits.block_size,
        reuse_prefixes=reuse_prefixes,
        drafters=drafters,
        widest_draft=limits.widest_draft,
        costs=costs,
        judge=judge,
        hardware=Hardware.of_this_process(parts.plan.footprint, costs),
    )
    parts.runner.warm_up()  # over the cache that the engine has opened
    return engine


def _prepare(
    vocabulary: Vocabulary,
    kernel_process: KernelProcess,
    make_runner: Callable[[Report], ModelRunner],
    progress: Progress,
    nbytes: int,
) -> tuple[ConstraintCompiler, ModelRunner]:
    """Make the constraint compiler and the runner at once: one is Python, the other matrices.

    ``nbytes`` is the size of the weights.
    """

    def compiling() -> ConstraintCompiler:
        compiler = ConstraintCompiler(vocabulary)
        compiler.rehearse()
        kernel_process.end()
        return compiler

    with ThreadPoolExecutor(1) as beside:
        compiler = beside.submit(compiling)
        with progress.step("packing weights", total_bytes=nbytes) as report:
            runner = make_runner(report)
        is_first = kernel_process.is_needed
        with progress.step(f"preparing kernels{', only at the first start' if is_first else ''}"):
            return compiler.result(), runner


def _warm_up(engine: Engine) -> None:
    """Make an answer of each kind, so that no request waits for machine code to be made or loaded.

    One answer with each adapter as well, so that no request is the first to compute with it.
    """
    # One greedy and one sampled, because they choose by different code.
    constraint = JsonSchema(_WARM_UP)
    sampled = Sampling(1.0, top_k=40, top_p=0.9, seed=0)
    for name, forcing, sampling, adapter in (
        ("warm-up", Forcing.CANONICAL, Sampling(), ""),
        ("warm-up, strict and sampled", Forcing.STRICT, sampled, ""),
        *((f"warm-up of {each}", Forcing.STRICT, Sampling(), each) for each in engine.adapters),
    ):
        request = GenerationRequest(
            prompt="{",
            constraint=constraint,
            max_tokens=_WARM_UP_TOKENS,
            forcing=forcing,
            sampling=sampling,
            adapter=adapter,
        )
        try:
            engine.submit(name, request)
        except GuidedError as error:
            # A vocabulary that cannot spell this may still spell what users want.
            _log.info("no answer to warm up with: %s", error)
    while engine.has_work:
        engine.step()
    # The first request of a caller should find the counters at zero.
    engine.reset_counters()


def inspect_memory(
    model: str | None = None,
    *,
    dtype: str | None = None,
    cache_tokens: int | None = None,
    kv_memory: int | None = None,
    kv_dtype: str | None = None,
    device: str = AUTO,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
) -> tuple[ModelFiles, MemoryPlan]:
    """Return the model, and the memory that ``load_engine`` would take with these settings."""
    torch_device = choose_device(device)
    check_formats(dtype, kv_dtype, torch_device)
    split = choose_split(tensor_parallel, pipeline_parallel)
    check_ranks(split, device, torch_device, dtype=dtype)
    limits = StepLimits.for_device(torch_device, widest_draft=WIDEST_DRAFT)
    cache_request = CacheRequest(cache_tokens, kv_memory, kv_dtype == "int8", limits, split)
    progress = RichProgress()
    files = find_files(
        model, dtype, torch_device, progress, by_transformers=cache_request.by_transformers
    )
    return files, plan_model(files, dtype, cache_request, torch_device)
