"""A recogniser bound to a vocabulary: masks, forced runs, matchers.

This package knows one thing about languages: strings and names end with a quote. It uses these
words throughout (those of the whole project are in docs/architecture.md):

    walk      one pass over the trie that finds which tokens may follow a state
    site      a node of the trie at which a walk continues; its *entry* says how the walk gets there
    overlay   a row that equals another, the row below, except for some bytes
    outline   all that tokens can reach from a row up to the end of its string or block
    horizon   how many bytes from a row its outline ends, where more could be reached
    traits    what walks have to know about a row: its bounds, its outline, the row below
    key       the text of a member's name; for a mask, what it depends on
    piece     a part of a text that a tokenizer puts together from tokens separately

Names in capitals are columns of rows (``guided.machine.table_layout``) and of other arrays, and the
values these may hold; each is explained where it is defined.
"""
