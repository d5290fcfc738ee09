"""The recogniser of documents: rows are made and formulas evaluated as a text reaches them.

Words used throughout (those of the whole project are in docs/architecture.md):

    ask        a formula that a value is asked to fit; one value may have several
    must       the first ask, or the only goal, has to hold
    goal       what is left of an ask for an open container
    link       which assertion of a container fails unless a value fits an ask
    sure       of an awaited value: any value that fits leaves a completion
    owed       what has to come before an end: code points, items, members
    plain      of an object: it only has to fit ``Members`` assertions, and to have some names
    order      the names that the schema spells out for an object; a place is an index in it
    free name  any other name; a key is a name as it is written
    class      free names for which the same holds; a rare one has a limited number of names
    hazy       of an array: an item that others must differ from is not known
    chain      the rows that spell one text
    overlay    rows laid over others, with other targets for some bytes

Names in capitals are columns of rows, see ``guided.machine.table_layout``.
"""
