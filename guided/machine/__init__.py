"""What all recognisers share: their interface, the table of rows, labels whatever they mean."""
