"""The models as they were when all their states were searched: `make model` notes it, a test asks for it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
NOTED = HERE / "searched.json"
NEEDED = ("spin", "gcc", "g++")


def digests() -> dict[str, str]:
    """Returns the SHA-256 of each model, by its file's name."""
    models = (*HERE.glob("*.pml"), *HERE.glob("*.cpp"))
    return {model.name: hashlib.sha256(model.read_bytes()).hexdigest() for model in sorted(models)}


def main() -> int:
    """Notes the models as they are; for use after a search of all that found no violation."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        print(f"{NOTED.name} stays as it is: {', '.join(missing)} not installed, so not all was searched")
        return 1
    NOTED.write_text(json.dumps(digests(), indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
