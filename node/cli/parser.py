"""The parser of the commands of the node package."""

from __future__ import annotations

import argparse
from typing import NoReturn

from node.errors import ConfigError


class NodeParser(argparse.ArgumentParser):
    """An argument parser whose complaints are ConfigErrors, so that they are one line."""

    def error(self, message: str) -> NoReturn:
        """One line, with where to read on."""
        raise ConfigError(f"{message}; {self.prog} --help tells what is allowed")
