"""The recogniser of documents: rows are made and formulas evaluated as a text gets to them."""
