"""The models as they were when all their states were searched: `make model` notes it, a test asks for it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NOTED = HERE / "searched.json"
TOOLS = {"masked.pml": ("spin", "gcc"), "electorate.cpp": ("g++",)}
"""What searches each model."""


def digests() -> dict[str, str]:
    """Returns the SHA-256 of each model, by its file's name."""
    models = (*HERE.glob("*.pml"), *HERE.glob("*.cpp"))
    return {model.name: hashlib.sha256(model.read_bytes()).hexdigest() for model in sorted(models)}


def skipped_without_its_tools(model: Path) -> pytest.MarkDecorator:
    """Marks tests that search a model: they are skipped, with the reason, where it cannot be searched."""
    lacking = _missing(model.name)
    return pytest.mark.skipif(
        bool(lacking), reason=f"{model.name} was not searched: {', '.join(lacking)} not installed"
    )


def main() -> int:
    """Notes the models as they are; for use after a search of all that found no violation."""
    lacking = [name for model in TOOLS for name in _missing(model)]
    if lacking:
        print(f"{NOTED.name} stays as it is: {', '.join(lacking)} not installed, so not all was searched")
        return 1
    NOTED.write_text(json.dumps(digests(), indent=1) + "\n", "utf-8")
    return 0


def _missing(model: str) -> list[str]:
    return [name for name in TOOLS[model] if shutil.which(name) is None]


if __name__ == "__main__":
    sys.exit(main())
