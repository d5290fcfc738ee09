"""Compares guided with other engines: masks, the official JSON Schema suite, and whole answers.

``masks``, ``suite`` and ``e2e`` are programs: ``python -m benchmarks.peers.masks --help``.
"""
