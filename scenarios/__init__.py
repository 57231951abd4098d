"""Scenarios: runs of whole swarms, each with claims that the run confirms or refutes.

`python -m scenarios list` lists them, `python -m scenarios run NAME` runs one.
"""

from node.cli.sigint import loading

loading()
