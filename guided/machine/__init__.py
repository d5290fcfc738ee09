"""What all recognisers share: interface, table, stack transitions, and the pushdown machine."""
