"""What all recognisers share: the pushdown machine, its table, and stack transitions.

Names in capitals are columns of rows and the values these may hold, see ``table_layout``.
"""
