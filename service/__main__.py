"""``python -m guided_service`` is ``guided serve``."""

import typer

from guided_service.cli import serve

if __name__ == "__main__":
    typer.run(serve)
