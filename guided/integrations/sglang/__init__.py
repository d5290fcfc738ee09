"""Structured outputs of SGLang by guided's masks.

``python -m sglang.launch_server --model-path MODEL --grammar-backend guided``, and nothing else:
SGLang finds the plugin by its entry point. See docs/hosts/sglang.md.
"""

from guided.integrations.sglang.plugin import register

__all__ = ["register"]
