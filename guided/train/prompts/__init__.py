"""Prompts to generate training data from."""

from guided.train.prompts.prompt import Prompts, made_prompts, read_prompts

__all__ = ["Prompts", "made_prompts", "read_prompts"]
