"""Token id ↔ exact bytes, on real tokenizers and on small ones made to be refused."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import ByT5Tokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from guided.errors import ModelError
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId
from tests.kit.built_tokenizers import BUILT, built_vocabulary, loaded
from tests.kit.tokenizers import TOKENIZERS, real_tokenizer, real_vocabulary

HARD_TEXTS = (
    *("", " ", "  ", "a", " a", "  a", "a ", "hello", " hello world", "   x   y   "),
    *("\n", "\n\n\n", "\r\n\t\t x", "\t", "\x00", "\x01\x02", "\x7f", "\x85\xa0\u2028"),
    *("12345", "  12", "3.14e-10", "2024-02-29", '{"a": [1, 2], "b": {"c": null}}', '\\u00e9"'),
    *("é", "e\u0301", "Å", "ﬁ", "½", "ｆｕｌｌ", "İ", "ß", "漢字", "안녕", "مرحبا", "ไทย", "हिन्दी"),
    *("😀", "👩‍👩‍👧", "🇫🇷", "\ufeffx", "\u200b", "\u200d x", "\U0001f600\ufe0f"),
    *("▁", "a▁ b▁▁", " ▁ ", "▁▁▁▁", "Ġ", "Ċa", "<0x41>", "<0x0A>", "##a"),
    *("<s>", "a</s>b", "<|im_end|>", "<|endoftext|> <eos>", "<unk>", "<pad>", "[CLS]"),
    *("<tool_call>x</tool_call>", "<unused3> <mask>", "<|begin_of_text|>", "<table></b>"),
)


BYTE_LEVEL = "built like GPT-2"


def built_tokenizer() -> PreTrainedTokenizerBase:
    """A new small byte-level tokenizer for each test, with the added token <tool_call>."""
    return loaded(BUILT[BYTE_LEVEL]())


@pytest.fixture(params=TOKENIZERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_a_hard_text_survives_spelling(name: str, text: str) -> None:
    vocabulary = real_vocabulary(name)
    assert decode(vocabulary, vocabulary.spell(text)) == text


@cache
def texts_of_known_bytes(name: str) -> st.SearchStrategy[str]:
    missing = real_vocabulary(name).missing_bytes
    characters = st.characters(exclude_categories=["Cs"]).filter(
        lambda character: missing.isdisjoint(character.encode())
    )
    return st.text(characters, max_size=40)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_text_of_known_bytes_survives_spelling(name: str, data: st.DataObject) -> None:
    vocabulary = real_vocabulary(name)
    text = data.draw(texts_of_known_bytes(name))
    assert decode(vocabulary, vocabulary.spell(text)) == text


ORDINARY_TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    'def f(x):\n    return {"key": [x, 12345], "é": "漢字 😀"}\n',
    "In 1789, the price rose by 3.5 % — “too much”, she said…\n\n\tYes.",
)


@pytest.mark.parametrize("text", ORDINARY_TEXTS)
def test_bytes_of_what_the_tokenizer_encodes_are_the_text(name: str, text: str) -> None:
    tokens = real_tokenizer(name).encode(text, add_special_tokens=False)
    # Llama 2 puts a space before every text.
    expected = " " + text if name == "llama2" else text
    assert decode(real_vocabulary(name), tokens) == expected


@pytest.mark.parametrize("text", ORDINARY_TEXTS)
def test_spelling_is_the_tokenizers_own(name: str, text: str) -> None:
    """After a line break, where no dummy space can be, both must choose the same tokens."""
    tokenizer, vocabulary = real_tokenizer(name), real_vocabulary(name)
    before = tokenizer.encode("\n", add_special_tokens=False)
    tokens = tokenizer.encode("\n" + text, add_special_tokens=False)
    assert tokens[: len(before)] == before
    assert list(vocabulary.spell(text)) == tokens[len(before) :]


def test_every_token_is_special_or_has_the_bytes_that_the_tokenizer_decodes(name: str) -> None:
    """Between two others, because a tokenizer may strip both ends of a text."""
    tokenizer, vocabulary = real_tokenizer(name), real_vocabulary(name)
    x = vocabulary.byte_ids[ord("x")]
    special = special_ids(tokenizer)
    wholes = []
    for token, known in enumerate(vocabulary.token_bytes):
        assert (known is None) == (token in special), token
        if known is not None and is_text(known):
            wholes.append((token, known.decode()))
    assert len(wholes) > 0.9 * len(vocabulary)
    for token, text in wholes[:: max(1, len(wholes) // 20_000)]:
        found = tokenizer.decode([x, token, x], skip_special_tokens=False)
        assert found == f"x{text}x", token


def special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    added = tokenizer.added_tokens_decoder
    marked = {token for token, entry in added.items() if entry.special}
    return marked | set(tokenizer.all_special_ids)


@pytest.mark.parametrize(
    ("name", "size", "end_ids", "missing"),
    [
        ("smollm2", 49152, {2}, "04 06 13 14 16 1d c0 c1 f1 f2 f5 f6 f7 f8 f9 fa fb fc fd fe ff"),
        ("llama3", 128256, {128001}, ""),
        ("llama2", 32000, {2}, ""),
        ("qwen3", 151669, {151645}, ""),
        ("gemma3", 262145, {106}, ""),
    ],
)
def test_size_ends_and_missing_bytes(name: str, size: int, end_ids: set[int], missing: str) -> None:
    vocabulary = real_vocabulary(name)
    assert len(vocabulary) == size
    assert vocabulary.end_ids == end_ids
    assert vocabulary.missing_bytes == set(bytes.fromhex(missing))
    for byte in set(range(256)) - vocabulary.missing_bytes:
        assert vocabulary.decode([vocabulary.byte_ids[byte]]) == bytes([byte])


def test_a_letter_is_its_own_token_and_not_its_byte_token() -> None:
    """Byte fallback has two tokens for ``A``; both have its bytes, one is how it is spelled."""
    tokenizer, vocabulary = real_tokenizer("llama2"), real_vocabulary("llama2")
    letter, fallback = (id_of(tokenizer, token) for token in ("A", "<0x41>"))
    assert vocabulary.token_bytes[letter] == vocabulary.token_bytes[fallback] == b"A"
    assert vocabulary.byte_ids[ord("A")] == letter


def test_a_text_with_a_missing_byte_is_refused_not_shortened() -> None:
    with pytest.raises(ModelError, match=r"cannot spell 'a\\x04b'.* reads b'ab'"):
        real_vocabulary("smollm2").spell("a\x04b")


def test_composition_of_characters_is_kept() -> None:
    """Qwen composes characters before it reads them; a forced text must come out as it is."""
    text = "e\u0301"
    assert unicodedata.normalize("NFC", text) != text
    vocabulary = real_vocabulary("qwen3")
    assert decode(vocabulary, vocabulary.spell(text)) == text


def test_special_tokens_written_in_a_text_are_text() -> None:
    vocabulary = real_vocabulary("smollm2")
    assert set(vocabulary.spell("<|im_end|>")).isdisjoint(vocabulary.end_ids)


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("text", HARD_TEXTS)
def test_no_text_is_a_special_token_or_that_of_a_byte(name: str, text: str) -> None:
    vocabulary = built_vocabulary(name)
    assert decode(vocabulary, vocabulary.spell(text)) == text


def test_an_end_token_is_never_text() -> None:
    """Its text is spelled by other tokens."""
    tokenizer = real_tokenizer("smollm2")
    token = id_of(tokenizer, "hello")
    vocabulary = vocabulary_from_tokenizer(tokenizer, end_ids=[token])
    assert vocabulary.token_bytes[token] is None
    tokens = vocabulary.spell("hello, hellos")
    assert token not in tokens
    assert decode(vocabulary, tokens) == "hello, hellos"


def test_an_added_token_that_the_tokenizer_calls_special_is_text() -> None:
    """Its own entry may not say so."""
    tokenizer = built_tokenizer()
    tokenizer.add_tokens(["[end]"])
    tokenizer.eos_token = "[end]"
    vocabulary = vocabulary_from_tokenizer(tokenizer)
    assert decode(vocabulary, vocabulary.spell("the [end]")) == "the [end]"


def test_added_tokens_that_are_not_special_are_text() -> None:
    tokenizer, vocabulary = real_tokenizer("qwen3"), real_vocabulary("qwen3")
    token = id_of(tokenizer, "<tool_call>")
    assert vocabulary.token_bytes[token] == b"<tool_call>"
    assert list(vocabulary.spell("<tool_call>")) == [token]


def test_an_added_token_is_not_written_in_byte_letters() -> None:
    """``é`` in it is that character, not the letter for byte 0xE9."""
    tokenizer = built_tokenizer()
    tokenizer.add_tokens(["éé"])
    vocabulary = vocabulary_from_tokenizer(tokenizer)
    assert vocabulary.token_bytes[id_of(tokenizer, "éé")] == "éé".encode()
    assert decode(vocabulary, vocabulary.spell("xééx")) == "xééx"


def test_further_end_tokens_join_the_tokenizers_own() -> None:
    vocabulary = vocabulary_from_tokenizer(real_tokenizer("smollm2"), end_ids=[0])
    assert vocabulary.end_ids == {0, 2}
    assert vocabulary.digest != real_vocabulary("smollm2").digest


def test_tokens_without_a_logit_are_left_out() -> None:
    width = len(built_vocabulary(BYTE_LEVEL)) - 50
    narrow = vocabulary_from_tokenizer(built_tokenizer(), logits_width=width)
    assert len(narrow) == width
    assert narrow.token_bytes == built_vocabulary(BYTE_LEVEL).token_bytes[:width]


def test_logits_beyond_the_tokenizer_are_no_tokens() -> None:
    wide = vocabulary_from_tokenizer(built_tokenizer(), logits_width=60_000)
    assert wide.digest == built_vocabulary(BYTE_LEVEL).digest


def test_an_added_token_without_a_logit_is_spelled_by_others() -> None:
    tokenizer = built_tokenizer()
    token = id_of(tokenizer, "<tool_call>")
    assert [*built_vocabulary(BYTE_LEVEL).spell("<tool_call>")] == [token]
    narrow = vocabulary_from_tokenizer(tokenizer, logits_width=token)
    tokens = narrow.spell("<tool_call>")
    assert token not in tokens
    assert decode(narrow, tokens) == "<tool_call>"


def test_an_end_token_without_a_logit_is_refused() -> None:
    with pytest.raises(ModelError, match=r"token 49151 is beyond the 49151 logits"):
        vocabulary_from_tokenizer(real_tokenizer("smollm2"), end_ids=[49_151], logits_width=49_151)


def small(tokenizer: Tokenizer) -> PreTrainedTokenizerBase:
    made: Callable[..., PreTrainedTokenizerBase] = PreTrainedTokenizerFast
    return made(tokenizer_object=tokenizer)


def trained_unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=60, show_progress=False, unk_token="<unk>")
    tokenizer.train_from_iterator(["some words to learn", "some more of them"] * 9, trainer)
    return tokenizer


def characters_bpe(**options: object) -> Tokenizer:
    alphabet = {chr(byte): byte - 0x20 for byte in range(0x20, 0x7F)}
    return Tokenizer(models.BPE(vocab=alphabet, merges=[], **options))


REFUSED = [
    (
        lambda: small(Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))),
        "a WordPiece tokenizer cannot spell every text: it replaces what it does not know; choose "
        "a model whose tokenizer is byte-level BPE or falls back to bytes",
    ),
    (
        lambda: small(trained_unigram()),
        "the Unigram tokenizer has no byte fallback: it cannot spell characters that it does not "
        "know; choose a model whose tokenizer is byte-level BPE or falls back to bytes",
    ),
    (
        lambda: small(characters_bpe()),
        "the BPE tokenizer has no byte fallback: it cannot spell characters that it does not know; "
        "choose a model whose tokenizer is byte-level BPE or falls back to bytes",
    ),
    (
        lambda: small(characters_bpe(end_of_word_suffix="</w>")),
        "the tokenizer marks parts of words with '</w>' (end_of_word_suffix), so its tokens do not "
        "say where spaces are; choose a model whose tokenizer is byte-level BPE or falls back to "
        "bytes",
    ),
    (
        ByT5Tokenizer,
        "tokenizer ByT5Tokenizer is slow: it does not say which bytes its tokens stand for; choose "
        "a model with a fast tokenizer (a tokenizer.json in its folder)",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_tokenizers_that_cannot_spell_every_text_are_refused(
    make: Callable[[], PreTrainedTokenizerBase], message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        vocabulary_from_tokenizer(make())
    assert str(caught.value) == message


def byte_fallback_unigram(prepend_scheme: str = "always") -> Tokenizer:
    pieces = [("<unk>", 0.0), *((f"<0x{byte:02X}>", -9.0) for byte in range(256))]
    pieces += [("▁", -1.0), ("ab", -1.0), ("▁ab", -1.5)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme)
    return tokenizer


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_a_dummy_space_is_never_spelled(scheme: str) -> None:
    vocabulary = vocabulary_from_tokenizer(small(byte_fallback_unigram(prepend_scheme=scheme)))
    assert decode(vocabulary, vocabulary.spell("ab ab")) == "ab ab"


def test_normalisation_is_not_part_of_spelling() -> None:
    tokenizer = byte_fallback_unigram()
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()]
    )
    vocabulary = vocabulary_from_tokenizer(small(tokenizer))
    assert decode(vocabulary, vocabulary.spell(" ﬁ ABab ")) == " ﬁ ABab "


@pytest.mark.parametrize("text", ["\ufdd0" * 8, "\ufdd0" * 8 + "1", "a" + "\ufdd0" * 20 + "12b"])
def test_noncharacters_are_text(text: str) -> None:
    vocabulary = vocabulary_from_tokenizer(small(byte_fallback_unigram()))
    assert decode(vocabulary, vocabulary.spell(text)) == text


def test_truncation_is_not_part_of_spelling() -> None:
    tokenizer = byte_fallback_unigram()
    tokenizer.enable_truncation(max_length=3)
    vocabulary = vocabulary_from_tokenizer(small(tokenizer))
    assert decode(vocabulary, vocabulary.spell("ab" * 9)) == "ab" * 9


def test_added_tokens_that_swallow_spaces_are_not_used() -> None:
    tokenizer = byte_fallback_unigram()
    tokenizer.add_tokens([AddedToken("[x]", lstrip=True, rstrip=True, normalized=False)])
    vocabulary = vocabulary_from_tokenizer(small(tokenizer))
    assert decode(vocabulary, vocabulary.spell("ab  [x]  ab")) == "ab  [x]  ab"


def test_a_tokenizer_that_loses_spaces_is_refused() -> None:
    tokenizer = byte_fallback_unigram()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    with pytest.raises(ModelError, match=r"cannot spell ' a  b"):
        vocabulary_from_tokenizer(small(tokenizer))


ASCII = tuple(bytes([byte]) for byte in range(0x20, 0x7F))


def spell_letters(text: str) -> list[int]:
    return [byte - 0x20 for byte in text.encode()]


def make(token_bytes: tuple[bytes | None, ...] = ASCII, *end_ids: int) -> Vocabulary:
    return Vocabulary(
        token_bytes=token_bytes, end_ids=frozenset(map(TokenId, end_ids)), spell=spell_letters
    )


@pytest.mark.parametrize(
    ("token_bytes", "end_ids", "message"),
    [
        (
            ASCII[1:-1],
            (),
            "the vocabulary has no token of its own for ' ', '~'; choose a model whose tokenizer "
            "is byte-level BPE or falls back to bytes",
        ),
        (
            ASCII[:-10],
            (),
            "the vocabulary has no token of its own for 'u', 'v', 'w', 'x', 'y', 'z', '{', '|' and "
            "2 more; choose a model whose tokenizer is byte-level BPE or falls back to bytes",
        ),
        (
            (*ASCII, b""),
            (),
            "token 95 stands for no bytes, so a text could grow by it without end; mark it as "
            "special, with None for its bytes",
        ),
        (
            ASCII,
            (95,),
            "end-of-sequence token 95 is not one of the 95 tokens of the vocabulary",
        ),
        (
            ASCII,
            (1,),
            "end-of-sequence token 1 also stands for the text b'!'; a token that ends a text must "
            "be special, with None for its bytes",
        ),
    ],
)
def test_a_wrong_vocabulary_is_refused(
    token_bytes: tuple[bytes | None, ...], end_ids: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        make(token_bytes, *end_ids)
    assert str(caught.value) == message


def test_the_digest_tells_bytes_and_ends_apart() -> None:
    same = make((*ASCII, None, b"ab"), 95)
    assert make((*ASCII, None, b"ab"), 95).digest == same.digest
    others = [
        make((*ASCII, None, b"ab")),
        make((*ASCII, b"ab", None), 96),
        make((*ASCII, None, None, b"ab"), 95),
        make((*ASCII, None, b"a", b"b"), 95),
    ]
    assert len({same.digest, *(other.digest for other in others)}) == 5


def id_of(tokenizer: PreTrainedTokenizerBase, token: str) -> int:
    found = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(found, int)
    return found


def decode(vocabulary: Vocabulary, tokens: Sequence[int]) -> str:
    assert all(vocabulary.token_bytes[token] is not None for token in tokens)
    return vocabulary.decode(map(TokenId, tokens)).decode()


def is_text(known: bytes) -> bool:
    try:
        known.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("text", ["hello world", "Hé, 漢字 😀\n\t{}", "12345", " x"])
def test_texts_of_the_tokens_of_a_prompt_are_the_prompt(name: str, text: str) -> None:
    tokenizer, vocabulary = real_tokenizer(name), real_vocabulary(name)
    texts = vocabulary.texts(map(TokenId, tokenizer.encode(text)))
    begin = b"" if tokenizer.bos_token is None else str(tokenizer.bos_token).encode()
    # Some tokenizers put a space before a text.
    assert b"".join(texts).removeprefix(begin).decode().removeprefix(" ") == text.removeprefix(" ")


def test_a_special_token_has_its_name_for_a_text_and_an_unused_one_has_none(name: str) -> None:
    tokenizer, vocabulary = real_tokenizer(name), real_vocabulary(name)
    special = tokenizer.all_special_ids
    names = [token.encode() for token in tokenizer.convert_ids_to_tokens(special)]
    assert vocabulary.texts(map(TokenId, special)) == tuple(names)
    unused = Vocabulary((*vocabulary.token_bytes, None), vocabulary.end_ids, vocabulary.spell)
    assert unused.texts([TokenId(len(vocabulary))]) == (b"",)
