"""Structured outputs in SGLang with guided's masks.

Run ``python -m sglang.launch_server --model-path MODEL --grammar-backend guided``; nothing else is
needed, as SGLang finds the plugin by its entry point. See docs/hosts/sglang.md.
"""

from guided.integrations.sglang.plugin import register

__all__ = ["register"]
