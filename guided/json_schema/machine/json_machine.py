"""The recogniser of JSON constraints: a pushdown machine whose frames are open containers.

A stack is the nest of open containers with what is left to fit of each; ``exits`` defines how it
changes when an automaton ends. While a value that has to differ from others is written, its text
is part of the state; code points of strings are counted outside their automaton.
"""

from __future__ import annotations

from guided.errors import LimitExceededError, UnsatisfiableError
from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.machine.additional_names import AdditionalNames
from guided.json_schema.machine.completions import DocumentCompletions
from guided.json_schema.machine.document_rows import DocumentRows
from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.exit_actions import DONE
from guided.json_schema.machine.exits import Exits
from guided.json_schema.machine.forbidden_members import forbidden_member_text
from guided.json_schema.machine.search import MAX_TRIES
from guided.json_schema.machine.stacks import ROOT
from guided.machine.parts import MachineParts, Pool, RecognizerLimits
from guided.machine.recognizer import Recognizer, State, StateSharing
from guided.machine.stack_transitions import NEEDS_EXACT_STATE
from guided.machine.table import END_ROW, IN_KEY, IN_RARE_KEY, KEY_CLOSED, TransitionTable
from guided.regular.dfa import DEAD
from guided.spec import JsonOptions

__all__ = ["JsonMachine"]


class JsonMachine(Recognizer):
    """Recognises the documents of a ``JsonGrammar``, byte by byte.

    ``unavailable_bytes`` are those without a token; no text that needs one is recognised.
    ``table`` is one that several recognisers share, whose own limit replaces ``limits.max_cells``.
    Raises UnsatisfiableError if no document is left, and LimitExceededError, from any method
    that may add rows to the table, past ``limits``.
    """

    def __init__(
        self,
        grammar: JsonGrammar,
        options: JsonOptions | None = None,
        unavailable_bytes: frozenset[int] = frozenset(),
        limits: RecognizerLimits | None = None,
        table: TransitionTable | None = None,
    ) -> None:
        limits = limits or RecognizerLimits()
        table = TransitionTable(limits.max_cells) if table is None else table
        evaluation = Evaluation(grammar, options or JsonOptions(), unavailable_bytes, limits)
        stacks = evaluation.stacks
        rows = DocumentRows(evaluation, table)
        exits, names = Exits(evaluation, rows), AdditionalNames(evaluation, table)
        completions = DocumentCompletions(evaluation, rows, exits, names)
        parts = MachineParts(
            table,
            stacks,
            [Pool("stacks", stacks.frames, limits.max_stacks)],
            "ask for less at once: shorter strings, smaller lists, fewer members",
            num_given_up=lambda: (
                evaluation.values.num_given_up + evaluation.values.num_partly_listed
            ),
            # The schema, the automata of strings, the searches for names, the cached completions.
            extra_nbytes=lambda: (
                evaluation.grammar.nbytes
                + evaluation.scalars.strings.nbytes
                + evaluation.scalars.numbers.nbytes
                + evaluation.objects.members.nbytes
                + completions.nbytes
            ),
        )
        super().__init__(parts)
        self.evaluation = evaluation
        self.stacks = stacks
        self.rows = rows
        self.exit_actions = rows.exit_actions
        self.exits = exits
        self._names = names
        self._completions = completions
        self._sharing = _Sharing(evaluation)
        # Before rows need a short document: so far only END_ROW was added to the table.
        if evaluation.values.text(grammar.root) is None:
            raise self._empty_error()
        self.start = State(ROOT, self.rows.before_value(ROOT, spaced=False))

    @property
    def sharing(self) -> StateSharing:
        """How masks are shared: by all members of an object whose name is not spelled out."""
        return self._sharing

    def is_accepting(self, state: State) -> bool:
        """Return whether the document may end here."""
        return state.stack == ROOT and (
            state.row == END_ROW or int(self.table.label[state.row]) == DONE
        )

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        """Return the stack and the row that an exit action leads to; see ``Recognizer``.

        Callers keep the result as a stack transition, so it depends only on the arguments.
        """
        at = stack, action
        # Like ``_enter_row``, continue through rows that read no byte and only have an exit action.
        while True:
            if self.exits.needs_text(*at):
                return NEEDS_EXACT_STATE, self.exits.row_at_most(*at)
            resolved = self.exits.resolve(*at)
            if resolved is None:
                return at[0], DEAD
            if not self.table.exits[resolved[1]]:
                return resolved
            at = resolved[0], int(self.table.label[resolved[1]])

    def after_exit(self, state: State) -> State | None:
        """Return the state after the exit action of the row.

        ``None`` if the row has none, or its action must not be taken.
        """
        action = int(self.table.label[state.row])
        return None if action == DEAD else self.exits.take(state.stack, action, state.texts)

    def _enter_row(self, before: State, row: int, byte: int) -> State | None:
        """Return the state after a byte that leads to a row; ``None`` if it must not be read.

        The byte is refused if a count passes its bounds or an additional name occurs twice. All
        remembered texts grow by the byte: those of values by depth, then that of an additional
        name. Rows that read no byte are left at once by their exit action; only the first of them
        can end an additional name.
        """
        stack, _, count, texts = before
        new_count = self._update_count(row, count)
        if new_count is None:
            return None
        texts_before = texts
        if texts:
            texts = tuple(text + bytes((byte,)) for text in texts)
        role = self.table.role[row]
        # The opening quote of an additional name leads here: from now on its text is remembered,
        # last.
        if role in (IN_KEY, IN_RARE_KEY) and len(texts) == self.stacks.num_texts(stack):
            texts = (*texts, b"")
        # The text without the closing quote, which is the byte.
        key = texts_before[-1] if role == KEY_CLOSED else None
        if key is not None and key in self.stacks.additional_names(stack):
            return None
        if role == IN_RARE_KEY and not self._names.can_close(stack, row, texts[-1]):
            return None
        after = State(stack, row, new_count, texts)
        while self.table.exits[after.row]:
            taken = self.exits.take(after.stack, int(self.table.label[after.row]), after.texts, key)
            if taken is None:
                return None
            after, key = taken, None
        return after

    def bytes_left(self, state: State) -> int:
        """Return an upper bound on the length of ``shortest_completion``.

        Cheap except for names and items that must not occur twice.
        """
        return self._completions.bytes_left(self, state)

    def shortest_completion(self, state: State) -> bytes:
        """Return bytes that complete the document from here, close to as few as possible."""
        return self._completions.shortest_completion(self, state)

    def check(self) -> None:
        """Raise AssertionError unless table, stacks and transitions agree with each other.

        Walks over the whole table: for tests.
        """
        self.parts.check()
        for number, parent in enumerate(self.stacks.parents[1:], start=1):
            assert 0 <= parent < number, (number, parent)

    def _empty_error(self) -> UnsatisfiableError | LimitExceededError:
        """Return the error for a schema with no known document.

        UnsatisfiableError if there surely is none, else LimitExceededError. Limits of values are
        looked at before searches that gave up, as both count in ``num_given_up``.
        """
        node = self.evaluation.searches.first_incomplete_node
        pointer = "" if node is None else node.pointer
        if (exceeded := self.evaluation.values.exceeded) is not None:
            limit, what = exceeded
            return LimitExceededError(
                f"no document was found, and none with more than {limit} {what} was tried",
                limit=limit,
                field="constraint",
                pointer=pointer,
                hint="lower the least lengths, or require fewer members and items",
            )
        if self.evaluation.values.num_given_up:
            return LimitExceededError(
                f"no document was found in {MAX_TRIES} tries for each part of the schema",
                limit=MAX_TRIES,
                field="constraint",
                pointer=pointer,
                hint="say with fewer alternatives what is meant",
            )
        empty = self.evaluation.values.empty_node
        pointer = "" if empty is None else empty.pointer
        message = "no document satisfies the schema"
        objects = self.evaluation.restriction.to_type(
            JsonType.OBJECT, self.evaluation.grammar.root if empty is None else empty
        )
        return UnsatisfiableError(
            f"no value fits here, and {message}" if pointer else message,
            pointer=pointer,
            hint=forbidden_member_text(objects)
            or "look for bounds that cross, for required members that may not be there, and for "
            "values that must contain another of their own schema",
        )


class _Sharing(StateSharing):
    """Lets overlays on states of additional names share their mask in all members of an object."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def overlaid_state(self, state: State, row: int) -> State:
        """Return the state in ``row``, in a stack that all members of an object share.

        ``row`` is the one that the row of ``state`` is an overlay of; count and texts stay.
        """
        return State(
            self._evaluation.names.skip_spelled_names(state.stack), row, state.count, state.texts
        )
