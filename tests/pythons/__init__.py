"""The wheel as it is installed, on each Python that it says it is for."""
