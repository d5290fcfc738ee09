"""What all recognisers share: interface, table, stack transitions, and the pushdown machine.

Names in capitals are columns of rows and what may stand in them, see ``table_layout``.
"""
