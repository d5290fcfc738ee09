"""A recogniser bound to a vocabulary: masks, forced runs, matchers.

Of languages it is known here that strings and names end with a quote, and no more.
"""
