"""A traced answer of a scripted model, which writes a given text."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from guided.constraint import ConstraintCompiler
from guided.decoding import Chooser, DraftBudget, DraftRequest, verify
from guided.decoding.trace import Trace, TracedBuilder
from guided.drafters import LookupDrafter
from guided.engine.answer_state import AnswerState
from guided.inspection import TracedToken, origins
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, GenerationResult, JsonSchema, Sampling, TokenId
from tests.kit.draft_context import draft_context, verified

__all__ = ["Scripted", "scripted_answer"]


class Scripted(NamedTuple):
    result: GenerationResult
    trace: Trace
    tokens: tuple[TracedToken, ...]


def scripted_answer(vocabulary: Vocabulary, schema: str, prompt: str, wanted: str) -> Scripted:
    """The answer ``wanted``, with at most six tokens drafted in a step."""
    chooser = Chooser(Sampling(), 0, 60, vocabulary.end_ids, top_logprobs=0)
    answer = AnswerState(
        tuple(map(TokenId, vocabulary.spell(prompt))),
        ConstraintCompiler(vocabulary).start(JsonSchema(schema)),
        chooser,
        Forcing.CANONICAL,
        is_constrained=True,
    )
    drafter, trace = LookupDrafter(vocabulary), Trace()
    memory = drafter.open(draft_context())
    script = [*vocabulary.spell(wanted), *sorted(vocabulary.end_ids)]
    likes = 2 * np.eye(len(vocabulary), dtype=np.float32)
    committed = 0
    while answer.finish_reason is None:
        builder = TracedBuilder(
            answer.make_trunk(committed, len(answer.tokens) - committed),
            answer.forcing,
            budget=DraftBudget(6),
            tokens_left=chooser.remaining(answer.answer_length),
            end_ids=chooser.end_ids,
        )
        builder.source = drafter.name
        drafter.propose([DraftRequest(answer.tokens, memory, builder)])
        tree, first = builder.tree(), committed - answer.prompt_length + 1
        depths = tree.depths()
        logits = {
            node: likes[script[min(first + depths[node], len(script) - 1)]]
            for node in tree.nodes_needing_logits
        }
        acceptance = verify(tree, logits, chooser, answer.answer_length, answer.history())
        trace.record(answer.answer_length, tree, acceptance, builder)
        answer.extend(tree, acceptance)
        memory.learn(verified(tree, acceptance))
        committed += len(acceptance.path)
    result = GenerationResult(
        text=answer.text(vocabulary),
        tokens=answer.answer,
        finish_reason=answer.finish_reason,
        usage=replace(answer.usage(), model_calls=len(trace.steps)),
        seconds=0.0,
        logprobs=answer.token_logprobs(vocabulary),
    )
    return Scripted(result, trace, origins(result, trace, vocabulary.token_bytes))
