"""The recognisers of grammars, with holes that other recognisers fill or without."""
