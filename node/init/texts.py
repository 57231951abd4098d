"""How `python -m node.init` has free text read: by a sentence encoder, by its words, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from node.data.text.sentences import USUAL, encoder_place, find_encoder, is_installed
from node.system.errors import shown
from node.task.data_schema import HASHED, TableSchema, TextColumn

AUTO, LEFT_OUT = "auto", "leave-out"
_WIDTH, _WIDTH_WITH_NOISE = 1024, 256
"""Of the vector of a text by its words. With noise each further feature drowns the others."""
_FEW_OTHERS = 8
"""Columns beside which free text is learned from unless an owner says otherwise."""


@dataclass(frozen=True)
class Texts:
    """What a column of free text becomes: by which encoder, of which width, beside how many other columns."""

    encoder: str
    width: int
    encoder_at: str | None = None
    """Where the encoder is, if it is not at the usual place."""
    most_others: int | None = None
    """None: however many there are."""

    def column(self, name: str) -> TextColumn:
        """Returns the schema of a column."""
        return TextColumn(name, "text", self.width, self.encoder)


def chosen_texts(asked: str, private: bool) -> Texts | None:
    """Returns how texts are read, None for not at all, by the answer to --text.

    That is AUTO, LEFT_OUT, HASHED, or the place of a sentence encoder: "package:NAME" or a folder.
    Raises ConfigError for a place where there is none.
    """
    if asked == LEFT_OUT:
        return None
    others = _FEW_OTHERS if asked == AUTO else None
    if asked == HASHED or (asked == AUTO and not is_installed()):
        return Texts(HASHED, _WIDTH_WITH_NOISE if private else _WIDTH, most_others=others)
    found = find_encoder(None if asked == AUTO else asked)
    if asked in (AUTO, USUAL):
        return Texts(found.digest, found.width, most_others=others)
    return Texts(found.digest, found.width, encoder_place(asked))


def text_note(schema: TableSchema, private: bool) -> str:
    """Returns what to say of the free text that a task reads; "" if it reads none."""
    if not schema.texts:
        return ""
    names = ", ".join(shown(column.name) for column in schema.texts)
    rest = "" if private else "; no noise bounds what the model remembers of rare words"
    return (
        f"free text may name persons ({names}): the text and its vectors stay here, and others see sums of "
        f"updates{rest}"
    )
