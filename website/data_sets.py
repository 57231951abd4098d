"""The reference page on the scenarios' data sets, from the sources that the code downloads them from."""

from __future__ import annotations

from scenarios.data.overview import SOURCES_HEADER, sources_table
from website.tables import table

_INTRODUCTION = """\
Where each data set of the scenarios comes from; this page is generated from the code. `python -m
scenarios data NAME` downloads a set, compares checksums, and makes the files that the scenarios read.

A checksum "as published" is the publisher's own; "as widely stated" is what many programs compare with;
"as one study states" has one witness. A file whose checksum nobody states is pinned at its first
download. The project's tests download only from a server of their own: they have not tried the
addresses in this table. FEMNIST's digits that `scenarios data femnist-digits` makes are by writer, and
other rows than those that the figures of `nbafl` were measured on; so are the rows of Criteo."""


def page() -> str:
    """The page on the data sets."""
    return f"# Data sets\n\n{_INTRODUCTION}\n\n{table(SOURCES_HEADER, sources_table())}\n"
