"""Messages that are large together: a value that makes each of them when it is asked for.

Whoever sends them asks later, in a task or a thread of its own, while the machine that said so has gone on
or has ended. So such a value holds no machine: what it is made of does not change any more, and it gives the
same messages whenever, however often and in whatever thread it is gone through. Nothing is built before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Bulk(ABC, Generic[T_co]):
    """A fixed number of messages. Two of them are the same only if they are one: vectors are not compared."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int:
        """How many there are."""

    @abstractmethod
    def at(self, index: int) -> T_co:
        """Message `index` of them, from 0 on."""

    def __iter__(self) -> Iterator[T_co]:
        """All of them in order, each made when it is reached."""
        for index in range(len(self)):
            yield self.at(index)
