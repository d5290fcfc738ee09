"""A recogniser bound to a vocabulary: masks, forced runs, matchers. No language here either."""
