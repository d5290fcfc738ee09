"""What a schema says of a value, as formulas over assertions; and sets of numbers."""
