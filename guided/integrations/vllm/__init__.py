"""Structured outputs of vLLM by guided's masks.

``vllm serve MODEL --structured-outputs-config.backend guided``, and nothing else: vLLM finds the
plugin by its entry point. A program that makes ``vllm.LLM`` itself calls ``register()`` before.
See docs/hosts/vllm.md.
"""

from guided.integrations.vllm.plugin import register

__all__ = ["register"]
