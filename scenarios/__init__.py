"""Scenarios: runs of whole swarms, judged by the claims that they make.

`python -m scenarios list` names them, `python -m scenarios run NAME` runs one.
"""

from node.cli.sigint import loading

loading()
