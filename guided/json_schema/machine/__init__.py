"""The recogniser of documents: rows are made and formulas evaluated as a text reaches them.

Words used throughout (those of the whole project are in docs/architecture.md):

    formulas      what is asked of one value; bit ``i`` of its truth vector is for ``formulas[i]``
    required      the first formula, or the only goal, has to hold
    goal          what is left to fit of a formula after the items or members so far
    dependent     of an assertion of a container: it fails unless a value fits a certain formula
    completion    the shortest text that ends the document, or one container, from a state
    completable   of a frame or a stack: a completion of it was found
    owed          what has to come before the end: code points, items, members
    plain goal    of an object: ``Members`` assertions and required names, all of which must hold
    order         the names that the schema spells out for an object
    additional    of a name: not in the order (``guided.machine`` says *free key*); a key is a name
                  as JSON spells it
    class         additional names for which the same holds; a rare one has a limited number of
                  names
    unknown item  an item that others must differ from, but whose text a walk does not know
    chain         the rows that spell one text
    overlay       rows added over others, with other targets for some bytes

A row is a state of an automaton in the transition table; a state of the whole machine is a stack,
a row, a count and remembered texts (``guided.machine.recognizer.State``).

Names in capitals are columns of rows, see ``guided.machine.table_layout``.
"""
