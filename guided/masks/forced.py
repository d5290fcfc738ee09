"""Forced runs: tokens that a constraint leaves no choice about, spelled as the tokenizer would.

If only one byte may follow, and one after that, the bytes are certain, but how they split into
tokens is up to the model. A split that differs from training distorts what the model says next. So
a run is what the tokenizer's spellings of all texts that may still come have in common. See
docs/forced-runs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from guided.errors import ModelError
from guided.machine.recognizer import Recognizer, State
from guided.machine.special_bytes import SPECIAL_MARK
from guided.masks.left_context import UNKNOWN_CONTEXT, LeftContexts
from guided.masks.piece_speller import PieceSpeller, byte_places
from guided.masks.spelling_rules import UNCERTAIN, SpellingRules, Tokens, plain_rules, whole_size
from guided.masks.splitting import Cuts, Splitting, SplitUncertainError
from guided.masks.trie import TokenTrie
from guided.masks.vocabulary import Vocabulary
from guided.masks.walker import Walker
from guided.runtime.work_budget import pause_if_due
from guided.spec import TokenId

__all__ = ["RunSpeller"]

_MAX_RUN_BYTES: Final = 512
"""Bounds the work of one run; what is left out is forced in the next."""
_FIRST_BYTES: Final = range(0xC2, 0xF5)
"""The first bytes of characters outside ASCII."""


class RunSpeller:
    """Spells forced runs for one vocabulary, for all threads.

    Only ``_speller`` and ``_left_contexts`` change, by remembering what follows from their keys,
    which any thread may do at any time. Whoever passes a ``Walker`` holds the lock of its
    ``CompiledConstraint``.
    """

    def __init__(self, vocabulary: Vocabulary, trie: TokenTrie) -> None:
        self._rules: Final[SpellingRules] = vocabulary.rules or plain_rules(vocabulary)
        self._vocabulary = vocabulary
        self._trie = trie
        self._speller = PieceSpeller(vocabulary, self._rules)
        self._left_contexts = LeftContexts(vocabulary.token_bytes, self._rules)
        self._special = {
            read: TokenId(token)
            for token, read in enumerate(vocabulary.read_as)
            if read is not None and read[0] == SPECIAL_MARK
        }
        """Special tokens by the bytes that are read for them."""
        self._added_tokens = frozenset(self._rules.added_token_ids)
        self._added_token_prefixes = _added_token_prefixes(
            trie, [*map(self._speller.text, self._added_tokens)]
        )

    def left_context(self, before: bytes, tokens: Sequence[TokenId]) -> bytes:
        """Return what the answer means for a run after more tokens, see ``LeftContexts``."""
        return self._left_contexts.after(before, tokens)

    def left_context_of(self, text: str) -> bytes:
        """Return what an answer that begins with this text means for a run after it."""
        try:
            tokens = self._vocabulary.spell(text)
        except ModelError:  # no tokens spell it, so it is not known how it was split
            return UNKNOWN_CONTEXT
        return self._left_contexts.after(b"", [TokenId(token) for token in tokens])

    def run(self, walker: Walker, state: State, context: bytes) -> Tokens:
        """Return the tokens forced from ``state`` on, after a left context; often none.

        May raise LimitExceededError when the machine is full.

        Every token is certain: callers add them to the answer without asking the model. So only
        tokens may be returned with which all remaining spellings begin; fewer is always right.
        """
        head, text, end, context = self._read_forced_text(walker, state, context)
        splitting = self._rules.splitting
        if end is None or splitting is None:
            return head
        try:
            # Nothing may follow, so no piece is open: the spelling of the whole text is certain.
            if walker.machine.parts.table.is_end(end.row):
                return head + _before_uncertain(self._speller.spell(text, len(context)))
            tail = _Tail(self._speller, splitting, walker, end, text, len(context))
            return head + self._certain_tokens(tail)
        except SplitUncertainError:
            return head

    def likely_run(self, walker: Walker, state: State, context: bytes) -> Tokens:
        """``run`` with the tokens at its end that are likely but not certain.

        Its tokens must be checked like any draft: the text may continue so that the last of them
        is spelled differently.
        """
        head, text, end, context = self._read_forced_text(walker, state, context)
        if end is None:
            return head
        try:
            return head + _before_uncertain(self._speller.spell(text, len(context)))
        except SplitUncertainError:
            return head

    def _read_forced_text(
        self, walker: Walker, state: State, context: bytes
    ) -> tuple[Tokens, bytes, State | None, bytes]:
        """Return what must follow: tokens, then characters with their left context, then a state.

        The tokens are those up to the last special one. The text is the left context and the whole
        characters after these; the state is the one after it, and the context is returned as well.

        The state is ``None`` if nothing more is certain: no whole character has to follow, nothing
        is certain after the tokens (``_up_to_special``), or how the tokenizer splits texts is
        unknown.
        """
        if context == UNKNOWN_CONTEXT or self._rules.splitting is None:
            return (), b"", None, context
        forced, states = _forced_bytes(walker.machine, state)
        head, begin = self._up_to_special(forced, context)
        if begin is None:
            return head, b"", None, context
        # Texts are split at special tokens first, so what stands before one does not matter.
        context = b"" if begin else context
        text = context + forced[begin:]
        size = whole_size(text)
        end = states[begin + size - len(context)] if size > len(context) else None
        return head, text[:size], end, context

    def _up_to_special(self, forced: bytes, context: bytes) -> tuple[Tokens, int | None]:
        """Return the tokens up to the last special one in forced bytes, and where the rest begins.

        The place is ``None`` if nothing more is certain: how the text before a special token is
        spelled, or which special token it is. A place of 0 means that there is no special token.

        ``context`` stands only before the first of the bytes: the left context after a special
        token is empty.
        """
        tokens: Tokens = ()
        begin = 0
        while (at := forced.find(SPECIAL_MARK, begin)) >= 0:
            try:
                before = self._speller.spell(context + forced[begin:at], len(context))
            except SplitUncertainError:
                return tokens, None
            tokens += _before_uncertain(before)
            end = forced.find(SPECIAL_MARK, at + 1) + 1  # past the closing mark; 0 without one
            if not end or UNCERTAIN in before:
                return tokens, None
            tokens += (self._special[forced[at:end]],)
            begin, context = end, b""
        return tokens, begin

    def _certain_tokens(self, tail: _Tail) -> Tokens:
        """Return what the spellings of all texts that begin with a tail have in common.

        In each, one token ends where the tail does or reaches beyond it, and what stands before
        that token is spelled as it is alone. So it is enough to look at each place where such a
        token may begin, and to keep the tokens with which all of these spellings begin.
        """
        certain = _before_uncertain(tail.certain_at_end())
        # No token that reaches beyond the tail begins earlier than this.
        first = max(tail.start, len(tail.text) - self._trie.longest)
        for place, node in self._trie.find_partial_tokens(tail.text[first:]):
            if not certain:
                break
            begin = first + place
            # An added token begins with a whole character, so ``begin`` is between two.
            if node in self._added_token_prefixes and tail.may_begin_added_token(
                node, begin, self._added_tokens
            ):
                certain = _common_prefix(
                    certain, self._speller.spell(tail.text[:begin], tail.start)
                )
            for piece in tail.pieces:
                if begin < piece.spell_from:
                    continue
                spelled = tail.spell_up_to(piece, begin)
                if spelled[: len(certain)] != certain and tail.is_followed(piece, begin, node):
                    certain = _common_prefix(certain, spelled)
        return certain


class _OpenPiece(NamedTuple):
    """The piece in which the forced bytes end, for one possible split of them into pieces."""

    head: Tokens
    """The tokens before it."""
    begin: int
    spell_from: int
    """Where the part to be spelled again begins: a token before it may end inside the piece."""
    state: int
    """How far its match got, for ``Splitting.may_extend_over``."""


class _Tail:
    """The forced bytes after a left context, and all pieces in which they may end."""

    def __init__(
        self,
        speller: PieceSpeller,
        splitting: Splitting,
        walker: Walker,
        end: State,
        text: bytes,
        start: int,
    ) -> None:
        """Take a text from the left context to the state ``end``; the run begins at ``start``."""
        self.text: Final = text
        self.start: Final = start
        self._speller = speller
        self._splitting = splitting
        self._walker = walker
        self._end = end
        self.pieces: Final = self._open_pieces()
        self._tokens: dict[int, list[TokenId]] = {}
        """The results of ``_allowed`` by place in the text, which alone determines the node."""

    def _open_pieces(self) -> list[_OpenPiece]:
        """Return the piece that the text may end in, for each possible split of it into pieces.

        Places in the text are in bytes, those that ``Splitting`` returns in characters.
        """
        through_added, base = self._speller.through_last_added_token(self.text, self.start)
        data = self.text[base:]
        text, run_start = data.decode(), max(self.start - base, 0)
        found = []
        for cuts in self._possible_cuts(text):
            state = self._splitting.open_piece_state(text, cuts[-1] if cuts else 0)
            places = byte_places(text, cuts)
            head = through_added + self._speller.spell_pieces(data, places, run_start)
            begin = places[-1] if places else 0
            found.append(_OpenPiece(head, base + begin, base + max(begin, run_start), state))
        return found

    def _possible_cuts(self, text: str) -> list[Cuts]:
        """Return where the pieces of ``text`` may begin, for each split that is still possible.

        ``text`` is the end of ``self.text``, up to the state ``_end``; places are in characters of
        it. May raise SplitUncertainError. Returns none where several were possible and no character
        may follow: the text is then at its end.

        No possible split may be left out, or a run that is not certain would be taken for certain;
        one too many only makes runs shorter.
        """
        splitting, machine, end = self._splitting, self._walker.machine, self._end
        possible = splitting.possible_cuts(text)
        if len(possible) < 2:
            return possible
        # Usually one more character decides between them. Each ASCII character that may follow is
        # tried; if one outside ASCII may follow, all splits stay.
        remaining: dict[Cuts, None] = {}
        for byte in range(0x80):
            if machine.advance(end, bytes((byte,))) is not None:
                pause_if_due()
                # A cut at the very end stays: the next character begins a piece, and the open piece
                # is empty.
                for cuts in splitting.possible_cuts(text + chr(byte)):
                    remaining.setdefault(tuple([cut for cut in cuts if cut <= len(text)]))
        for byte in _FIRST_BYTES:
            if machine.advance(end, bytes((byte,))) is not None:
                remaining.update(dict.fromkeys(possible))
                break
        return list(remaining)

    def certain_at_end(self) -> Tokens:
        """Return what all spellings with a token that ends where the text does have in common.

        There is at least one: where nothing may follow, so that no piece is left, the text may be
        closed.
        """
        spellings = []
        if self._may_be_closed():
            spellings.append(self._speller.spell(self.text, self.start))
        for piece in self.pieces:
            spellings.append(self.spell_up_to(piece, len(self.text)))
            whole = self._speller.whole_piece_token(self.text[piece.begin :])
            if whole is not None and piece.begin == piece.spell_from:
                spellings.append(piece.head + whole)
        certain = spellings[0]
        for spelled in spellings[1:]:
            certain = _common_prefix(certain, spelled)
        return certain

    def _may_be_closed(self) -> bool:
        """Return whether the text may end here, or a special or added token may begin."""
        machine, end = self._walker.machine, self._end
        if machine.is_accepting(end):
            return True
        # A special token may follow as well, which ends what stands before it as an end would.
        return any(
            machine.advance(end, bytes((byte,))) is not None
            for byte in (*self._speller.added_first_bytes, SPECIAL_MARK)
        )

    def spell_up_to(self, piece: _OpenPiece, end: int) -> Tokens:
        """Return the tokens up to a place in an open piece, if one of them ends there."""
        return piece.head + self._speller.spell_beginning(self.text[piece.spell_from : end])

    def is_followed(self, piece: _OpenPiece, begin: int, node: int) -> bool:
        """Return whether a token that reaches beyond the text may begin in an open piece here.

        ``node`` spells the text from ``begin`` on. True may be wrong, False never is: a token must
        be allowed, stay inside the piece, and be one that the tokenizer could put there.
        """
        before = self.spell_up_to(piece, begin)[-1:] if begin > piece.spell_from else ()
        if before == (UNCERTAIN,):
            before = ()
        beyond = len(self.text) - begin
        for token in self._allowed(node, begin):
            text = self._speller.text(token)
            rest = text[beyond:]
            if not rest or not self._may_extend_over(piece, rest):
                continue
            if self._speller.may_follow(before, token):
                return True
            if begin == piece.begin and self._speller.whole_piece_token(text) == (token,):
                return True
        return False

    def _may_extend_over(self, piece: _OpenPiece, rest: bytes) -> bool:
        """Return whether an open piece may extend over all whole characters of ``rest``."""
        return self._splitting.may_extend_over(piece.state, rest[: whole_size(rest)].decode())

    def may_begin_added_token(self, node: int, begin: int, added: frozenset[TokenId]) -> bool:
        """Return whether an added token may begin at a place and reach beyond the end.

        True may be wrong, False never is: the tokens are those that may, or might, follow
        (``Walker.tokens_below``).
        """
        beyond = len(self.text) - begin
        tokens = added.intersection(self._allowed(node, begin))
        return any(len(self._speller.text(token)) > beyond for token in tokens)

    def _allowed(self, node: int, begin: int) -> list[TokenId]:
        """Return the tokens that may, or might, begin at a place and reach beyond the end.

        ``node`` spells the text from the place on.
        """
        tokens = self._tokens.get(begin)
        if tokens is None:
            tokens = self._walker.tokens_below(node, self._end).tolist()
            self._tokens[begin] = tokens
        return tokens


def _before_uncertain(tokens: Tokens) -> Tokens:
    """Return the tokens before the first uncertain one."""
    return tokens[: tokens.index(UNCERTAIN)] if UNCERTAIN in tokens else tokens


def _common_prefix(left: Tokens, right: Tokens) -> Tokens:
    """Return the longest common beginning of two spellings.

    UNCERTAIN is compared like any token, so callers cut it off before they rely on the result.
    """
    for at in range(min(len(left), len(right))):
        if left[at] != right[at]:
            return left[:at]
    return left if len(left) <= len(right) else right


def _forced_bytes(machine: Recognizer, state: State) -> tuple[bytes, list[State]]:
    """Return the bytes that have to follow, and the states around them.

    State ``i`` is the one after ``i`` bytes, so there is always one more state than bytes. Both
    results are fresh.

    Returns at most ``_MAX_RUN_BYTES``; the end of the bytes does not mean that there is a choice.
    """
    forced, states = bytearray(), [state]
    while len(forced) < _MAX_RUN_BYTES and (byte := machine.only_byte(states[-1])) is not None:
        reached = machine.step(states[-1], byte)
        assert reached is not None, byte  # ``only_byte`` returns only bytes that may follow
        forced.append(byte)
        states.append(reached)
    return bytes(forced), states


def _added_token_prefixes(trie: TokenTrie, texts: Sequence[bytes]) -> frozenset[int]:
    """Return the nodes that spell proper prefixes of the texts of added tokens."""
    nodes = [trie.find(text[:size]) for text in texts for size in range(1, len(text))]
    return frozenset([node for node in nodes if node is not None])
