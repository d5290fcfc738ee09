"""The engine of ``soak_server``: a real one, but the costs of its model calls are given.

Those of a tiny model are too short to be measured beside other work, and would decide whether
anything is drafted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from guided.runtime.environment import prepare_environment
from guided_service.engine_process import load_real_engine, main
from guided_service.messages import ModelChoice

if TYPE_CHECKING:
    from guided.engine import Engine

__all__ = ["SOAK_ENGINE"]

SOAK_ENGINE: Final = (sys.executable, "-m", "tests.kit.soak_engine")


def _load(choice: ModelChoice, share: Callable[[], None] | None) -> Engine:
    # Before numpy is loaded, which the imports below do.
    prepare_environment()
    from unittest.mock import patch

    from guided.decoding import CostCurve

    flat = CostCurve(((1, 1.0), (512, 1.001)))
    with patch("guided.engine.load.load_or_measure_costs", lambda *_: flat):
        return load_real_engine(choice, share)


if __name__ == "__main__":
    sys.exit(main(_load))
