"""One model over several processes, each with a share of its matrices: tensor parallelism.

The process of the engine is *rank 0*. It starts the others, tells them each call of the model, and
computes its own share of it; sums over the shares are those of ``torch.distributed``::

    engine ─▶ ShardedRunner ─ Call ─▶ rank 1   worker ─▶ ModelRunner ┐
                   │        └ Call ─▶ rank 2   worker ─▶ ModelRunner ┤ all-reduce after each
                   └▶ ModelRunner ───────────────────────────────────┘ attention and each MLP

Every rank keeps the keys and values of its own heads, in the same slots. Only rank 0 looks at the
logits. See docs/parallel.md.
"""
