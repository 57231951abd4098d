"""NVIDIA FLARE's side: `VENV/bin/python nvflare_program.py FOLDER`; the last line printed is JSON.

Its workflow of swarm learning, in its simulator: five client processes, and a server that starts and ends the
job. A client that is drawn for each round receives all parts and sends the mean.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

HERE, FOLDER = Path(__file__).resolve().parent, Path(sys.argv[1]).resolve()
os.environ["PYTHONPATH"] = str(HERE)  # for the client processes

import torch  # noqa: E402 - after the path is set
from nvflare.app_opt.pt.recipes.swarm import SwarmLearningRecipe  # noqa: E402
from nvflare.recipe import SimEnv  # noqa: E402
from work import initial, read_case, score  # noqa: E402


def main() -> None:
    """Run the job and print what it took."""
    case = read_case(FOLDER)
    shutil.rmtree(FOLDER / "workspace", ignore_errors=True)
    for old in (*FOLDER.glob("sent*.txt"), *FOLDER.glob("begun*.txt")):
        old.unlink()
    recipe = SwarmLearningRecipe(
        name="beside",
        model={"class_path": "nvflare_parts.Parts", "args": {"folder": str(FOLDER)}},
        num_rounds=case["rounds"],
        min_clients=case["sites"],
        train_script=str(HERE / "nvflare_site.py"),
        train_args={"script_args": str(FOLDER)},
        key_metric=None,
    )
    begun = time.monotonic()
    recipe.execute(SimEnv(num_clients=case["sites"], workspace_root=str(FOLDER / "workspace")))
    whole_s = time.monotonic() - begun
    files = sorted(FOLDER.glob("workspace/**/FL_global_model.pt"), key=lambda file: file.stat().st_mtime)
    if not files:
        raise SystemExit(f"no model in {FOLDER / 'workspace'}: the job failed; see its logs")
    stored = torch.load(files[-1], weights_only=True)["model"]
    found = {name: np.asarray(stored[name.replace(".", "-")]) for name in initial(FOLDER)}
    starts = [np.loadtxt(FOLDER / f"begun{site}.txt", ndmin=1) for site in range(case["sites"])]
    told = {
        "version": f"nvflare {version('nvflare')}",
        "score": score(FOLDER, found),
        "whole_s": whole_s,
        "round_s": list(np.diff(starts[0])),
        "sent": [int(np.loadtxt(FOLDER / f"sent{site}.txt").sum()) for site in range(case["sites"])],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
