"""The examples in docstrings are correct."""

import doctest
import importlib

import pytest

MODULES = ["node", "node.data.in_memory", "node.api.peer", "node.api.swarm"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS, raise_on_error=False)
    assert result.attempted > 0
    assert result.failed == 0
