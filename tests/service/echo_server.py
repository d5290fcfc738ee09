"""A server over the echo engine, set by GUIDED_ variables like any other."""

from __future__ import annotations

import sys
from pathlib import Path

from guided_service.config import ServerConfig
from guided_service.server import serve

ENGINE = (sys.executable, str(Path(__file__).with_name("echo_engine.py")))

if __name__ == "__main__":
    sys.exit(serve(ServerConfig(), ENGINE))
