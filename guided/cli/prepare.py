"""The command ``guided prepare``."""

from __future__ import annotations

import typer

from guided.cli.examples import shown_with
from guided.cli.waiting import telling_of_compilation

__all__ = ["prepare"]


@shown_with("guided prepare", "RUN guided prepare    # in a container's file")
def prepare() -> None:
    """Compile what the first check or constraint would wait for.

    An installation from source holds it already for the processor that it was installed on. Run
    this where guided was installed on another machine, for example when a container is built. What
    models are computed with is compiled when one is first loaded.
    """
    with telling_of_compilation():
        # Loaded here, so that the other commands need not wait for it.
        from guided.constraint.preparation import prepare_kernels

        prepare_kernels()
    typer.echo("kernels are ready")
