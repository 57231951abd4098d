"""Figures of the owner's rows are made when somebody asks, once for each model."""

from itertools import count

from node.runtime.record.own_figures import OwnBook
from node.training.figures.class_figures import ClassFigures
from node.training.figures.headline import Alone


def test_figures_by_class_are_made_for_the_newest_model_once_somebody_asks():
    numbers = count()

    def make():
        return ClassFigures((), (), f"model {next(numbers)}")

    book = OwnBook()
    assert book.figures.classes is None
    for _ in range(3):
        book.measured(make)
    assert book.figures.classes == book.figures.classes == ClassFigures((), (), "model 0")
    book.measured(make)
    book.compared(Alone("accuracy", 0.5, 1.0))
    assert (book.figures.classes, book.figures.alone.value) == (ClassFigures((), (), "model 1"), 0.5)
