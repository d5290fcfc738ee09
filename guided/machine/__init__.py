"""What all recognisers share: interface, table, stack transitions, and the pushdown machine.

Names in capitals are columns of rows and the values these may hold, see ``table_layout``.
"""
