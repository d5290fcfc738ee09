"""The installed wheel, on each Python that it declares."""
