"""What a schema asks of a value, as formulas over assertions; and sets of numbers."""
