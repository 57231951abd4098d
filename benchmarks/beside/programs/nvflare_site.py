"""A site of NVIDIA FLARE: its process runs this script, which counts what leaves by the process's sockets."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from threading import Lock
from typing import Any

import nvflare.client as flare
import torch
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from work import Site, initial

_LOCK = Lock()


def count_frames(file: Path) -> None:
    """Append the size of each frame that this process sends to a file; a killed process leaves it whole."""
    send, sizes = SocketConnection.send_frame, file.open("a", buffering=1)

    def counted(connection: Any, frame: Any) -> None:
        with _LOCK:
            sizes.write(f"{memoryview(frame).nbytes}\n")
        send(connection, frame)

    SocketConnection.send_frame = counted


def main() -> None:
    """Take part in every round."""
    folder = Path(sys.argv[1])
    flare.init()
    number = int(flare.get_site_name().removeprefix("site-")) - 1
    count_frames(folder / f"sent{number}.txt")
    site, names = Site(folder, number), list(initial(folder))
    while flare.is_running():
        given = flare.receive()
        if given is None:
            break
        with (folder / f"begun{number}.txt").open("a") as file:
            file.write(f"{time.monotonic()}\n")
        part = site.part(
            {name: given.params[name.replace(".", "-")] for name in names}, given.current_round + 1
        )
        sendable = {name.replace(".", "-"): torch.from_numpy(array) for name, array in part.items()}
        flare.send(flare.FLModel(params=sendable, meta={"NUM_STEPS_CURRENT_ROUND": 1}))


if __name__ == "__main__":
    main()
