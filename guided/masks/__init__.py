"""A recogniser bound to a vocabulary: masks, forced runs, matchers.

Of languages it is known here that strings and names end with a quote, and no more. Words that are
used all over (those of the whole project are in docs/architecture.md):

    walk     one pass over the trie that tells which tokens may follow a state
    site     a node of the trie at which a walk goes on, with how it gets there
    outline  all that tokens can get to from a row inside of its string, whatever lies around it
    horizon  how many bytes from a row its outline ends, where more could be reached
    traits   what walks have to know of a row: its bounds, its outline, the row below
    key      the text of a member's name; of a mask, what it depends on

Names in capitals are columns of rows (``guided.machine.table_layout``) and of other arrays, and
what may stand in them; each is explained where it is defined.
"""
