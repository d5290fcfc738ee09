"""One model over several processes, each with a share of its matrices or of its layers.

The engine's process is *rank 0*. It starts the others, sends them each call of the model, and
computes its own share of it. With shares of matrices all compute at once, and sums over the shares
are those of ``torch.distributed``::

    engine ─▶ ShardedRunner ─ Call ─▶ rank 1   worker ─▶ ModelRunner ┐
                   │        └ Call ─▶ rank 2   worker ─▶ ModelRunner ┤ all-reduce after each
                   └▶ ModelRunner ───────────────────────────────────┘ attention and each MLP

With shares of layers the same ranks stand in a line, and hidden states go from rank 1 to rank 2
and on to rank 0, which has the head.

Every rank keeps the keys and values of its own heads or layers, in the same slots. Only rank 0
reads the logits. See docs/parallel.md.
"""
