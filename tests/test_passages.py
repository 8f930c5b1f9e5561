"""Passages: what is embedded of a note and of a page, and the key of each vector."""

import pytest
from conftest import note

from recall_core.passages import CHUNK, chunks, hash_of, passages
from recall_core.records import Memory


def test_a_title_is_part_of_what_is_embedded():
    plain, titled = note("a", "text"), note("a", "text", title="Title")
    assert (passages(plain), passages(titled)) == (["text"], ["Title\ntext"])
    assert hash_of("text") != hash_of("Title\ntext")
    assert passages(plain) == passages(note("b", "text", kind="fact"))
    assert hash_of("text") == "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"


def test_who_said_it_is_part_of_what_is_embedded():
    assert passages(note("a", "text", speaker="Ann")) == ["Ann: text"]
    assert passages(note("a", "text", speaker="Ann", title="Session 1")) == ["Ann: text"]
    assert passages(note("a", "text", speaker="")) == ["text"]


def paragraph(word: str, characters: int) -> str:
    return (word * characters)[:characters]


def test_a_page_is_embedded_whole_and_in_chunks():
    first, second = paragraph("a", CHUNK - 1), paragraph("b", CHUNK - 1)
    page = note("p", f"{first}\n\n{second}", kind="page", title="T")
    assert passages(page) == [f"T\n{first}\n\n{second}", f"T\n{first}", f"T\n{second}"]
    assert passages(note("p", page.text, title="T")) == [f"T\n{page.text}"]


@pytest.mark.parametrize(("more", "pieces"), [(-1, 1), (0, 2)])
def test_paragraphs_share_a_chunk_while_they_fit(more: int, pieces: int):
    # Joined while both together hold less than CHUNK characters.
    page = note("p", f"{paragraph('a', 100)}\n \n\n{paragraph('b', CHUNK - 100 + more)}", kind="page")
    assert len(chunks(page)) == pieces


@pytest.mark.parametrize("text", ["", "one line", "a\nb", paragraph("a", 5 * CHUNK)])
def test_a_page_of_one_chunk_has_one_passage(text: str):
    page = Memory(id="p", text=text, kind="page", title="T")
    assert passages(page) == chunks(page) == [f"T\n{text}"]


def test_no_paragraph_of_a_page_is_lost():
    words = [f"{i}-" * (i * 7 % 90) + "." for i in range(60)]
    page = note("p", "\n\n".join(words), kind="page")
    assert "\n\n".join(chunks(page)) == page.text
