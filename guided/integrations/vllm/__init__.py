"""Structured outputs in vLLM with guided's masks.

Run ``vllm serve MODEL --structured-outputs-config.backend guided``; nothing else is needed, as vLLM
finds the plugin by its entry point. A program that makes ``vllm.LLM`` itself calls ``register()``
first. See docs/hosts/vllm.md.
"""

from guided.integrations.vllm.plugin import register

__all__ = ["register"]
