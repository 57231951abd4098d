"""Messages that are large together: a value that builds each of them on demand.

The sender reads them later, in its own task or thread, when the machine that returned them may have continued
or ended. So such a value refers to no machine and to nothing that changes: it gives the same messages at any
time, any number of times, and in any thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Bulk(ABC, Generic[T_co]):
    """A fixed number of messages. Two values are equal only if identical: nothing compares vectors."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int:
        """The number of messages."""

    @abstractmethod
    def at(self, index: int) -> T_co:
        """Message `index`, counted from 0."""

    def __iter__(self) -> Iterator[T_co]:
        """Yields all messages in order, each built on demand."""
        for index in range(len(self)):
            yield self.at(index)


@dataclass(frozen=True, slots=True, eq=False)
class Held(Bulk[T_co]):
    """Messages whose payloads are on a shelf: they wait without memory of their own."""

    made: tuple[Callable[[], T_co], ...]
    """Makes each message."""

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.made)

    def at(self, index: int) -> T_co:
        """Message `index`."""
        return self.made[index]()
