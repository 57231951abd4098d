"""The exact linear algebra of an observer: what some equations over units and masks determine.

All coordinates of a vector obey the same equations, so one number stands for each vector. Arithmetic is
modulo a large prime: it determines the same combinations as the rationals, except with a probability of
about 2^-61.
"""

PRIME = 2**61 - 1

Column = tuple[object, ...]
Row = dict[Column, int]


def _is_mask(column: Column) -> bool:
    return column[0] == "mask"


class Basis:
    """Rows in echelon form, masks eliminated first."""

    def __init__(self) -> None:
        self._pivots: dict[Column, Row] = {}

    def reduce(self, row: Row) -> Row:
        """Reduces a row by all known rows; returns the rest."""
        rest = {column: value % PRIME for column, value in row.items() if value % PRIME}
        while True:
            column = next((column for column in rest if column in self._pivots), None)
            if column is None:
                return rest
            factor = rest[column]
            for other, value in self._pivots[column].items():
                left = (rest.get(other, 0) - factor * value) % PRIME
                if left:
                    rest[other] = left
                else:
                    rest.pop(other, None)

    def add(self, row: Row) -> None:
        """Adds a row; keeps every pivot out of every other row."""
        rest = self.reduce(row)
        if not rest:
            return
        pivot = min(rest, key=lambda column: (not _is_mask(column), str(column)))
        inverse = pow(rest[pivot], PRIME - 2, PRIME)
        unit = {column: value * inverse % PRIME for column, value in rest.items()}
        self._pivots[pivot] = unit
        for other, row_of_other in list(self._pivots.items()):
            if other != pivot and pivot in row_of_other:
                factor = row_of_other[pivot]
                merged = dict(row_of_other)
                for column, value in unit.items():
                    merged[column] = (merged.get(column, 0) - factor * value) % PRIME
                self._pivots[other] = {column: value for column, value in merged.items() if value}

    def unmasked(self) -> list[Row]:
        """The rows without a mask; they span all such rows that follow from the added ones."""
        return [row for pivot, row in self._pivots.items() if not _is_mask(pivot)]
