"""A file of tokens: its valid contents; changes take effect without a restart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from guided.bearer import token_hash
from guided.errors import RequestError
from guided_service.token_book import TokenBook, read_tokens

ANN, BOB = "guided_ann" + 33 * "a", "guided_bob" + 33 * "b"


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def table(name: str, token: str, *lines: str) -> str:
    return "\n".join((f"[{name}]", f'sha256 = "{token_hash(token)}"', *lines, ""))


def names(book: TokenBook) -> list[str | None]:
    return [found[0] if (found := book.find(token)) else None for token in (ANN, BOB)]


def test_a_token_is_found_by_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(table("ann", ANN, "weight = 2", "tokens_per_minute = 1_000"))
    book = TokenBook(file)
    found = book.find(ANN)
    assert found is not None
    assert (found[0], found[1].weight, found[1].tokens_per_minute) == ("ann", 2.0, 1000)
    assert names(book) == ["ann", None]
    assert book.find(token_hash(ANN)) is None
    assert book.find("") is None


def test_changes_count_without_a_restart(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "tokens.toml"
    file.write_text(table("ann", ANN))
    book = TokenBook(file, clock)
    file.write_text(table("bob", BOB) + table("ann", ANN, "weight = 3"))
    assert names(book) == ["ann", None]  # it is read once a second
    clock.now += 1
    assert names(book) == ["ann", "bob"]
    file.write_text(table("bob", BOB))
    clock.now += 1
    assert names(book) == [None, "bob"]


@pytest.mark.parametrize("damage", ["[ann]", "sha256 = 1", None])
def test_a_file_that_is_broken_leaves_things_as_they_were(
    tmp_path: Path, damage: str | None
) -> None:
    clock, file = Clock(), tmp_path / "tokens.toml"
    file.write_text(table("ann", ANN))
    book = TokenBook(file, clock)
    if damage is None:
        file.unlink()
    else:
        file.write_text(damage)
    clock.now += 1
    assert names(book) == ["ann", None]
    file.write_text(table("bob", BOB))
    clock.now += 1
    assert names(book) == [None, "bob"]


def test_a_token_is_taken_until_its_last_day(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(
        table("ann", ANN, "expires = 2020-01-01") + table("bob", BOB, "expires = 2999-12-31")
    )
    assert names(TokenBook(file)) == [None, "bob"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[ann]\n", "at ann.sha256: Field required; 'guided tokens new NAME' prints"),
        ('[ann]\nsha256 = "secret"\n', "at ann.sha256: String should match pattern"),
        (table("ann", ANN, "weigth = 2"), "at ann.weigth: Extra inputs are not permitted"),
        (table("ann", ANN, "weight = 0"), "at ann.weight: Input should be greater than 0"),
        (table('"a b"', ANN), "at a b: String should match pattern"),
        (table("ann", ANN) + table("bob", ANN), ": ann and bob have the same token"),
        ("[ann", "cannot be read: "),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(RequestError, match=re.escape(complaint)) as caught:
        read_tokens(file)
    assert str(caught.value).startswith(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"none\.toml cannot be read"):
        TokenBook(tmp_path / "none.toml")
