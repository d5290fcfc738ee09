"""Models of transformers: fetching, loading, prompting, and running them in packed batches."""

__all__: list[str] = []
