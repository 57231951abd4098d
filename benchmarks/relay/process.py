"""A relay as a process of its own, as `murmuration tracker --relay` starts it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from benchmarks.memory.residence import cpu_seconds, resident_bytes
from benchmarks.started_nodes import ENVIRONMENT
from node.net.tls import ON
from node.relay.word_file import file_beside
from node.storage.key_file import read_key
from node.system.errors import UserError
from protocol.relay.admission import Licences, Relay
from protocol.wire.ids import Key

END_S = 10.0
_AT = re.compile(r"tracker [0-9a-f]{64} at (https?://\S+)")
_UNLIMITED = ("--relay-rate", "10000", "--relay-day", "1000000")
"""So that the operator's limits are not what is measured."""


class RelayProcess:
    """A relay on loopback with TLS, in an empty `folder`, while the context is entered."""

    def __init__(self, folder: Path) -> None:
        key_file = folder / "tracker.key"
        command = (sys.executable, "-m", "node.tracker", "--relay", "--listen", "127.0.0.1:0", "--tls", ON)
        self._process = subprocess.Popen(
            (*command, "--key", str(key_file), *_UNLIMITED),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=ENVIRONMENT,
            text=True,
        )
        self.url = self._started()
        key = read_key(key_file)
        if key is None:
            raise UserError(f"relay: {key_file} is gone")
        self._key = key.public
        self.licences = Licences(key, file_beside(key_file).read_text("ascii").strip())

    @property
    def endpoint(self) -> str:
        """Its HOST:PORT."""
        return self.url.partition("://")[2]

    def for_swarms_of(self, inviter: Key) -> Relay:
        """Returns what an inviter's swarms know of this relay."""
        return Relay(self.endpoint, self._key, self.licences.give(inviter))

    def _started(self) -> str:
        """Returns the address that it prints when it has started."""
        said = ""
        for line in self._process.stdout or ():
            said = line
            if (found := _AT.match(line)) is not None:
                return found[1]
        raise UserError(f"relay: it ended before it had started: {said.strip()}")

    def __enter__(self) -> RelayProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def cpu_s(self) -> float:
        """The CPU seconds that it has used."""
        return cpu_seconds(self._process.pid)

    @property
    def resident_mb(self) -> float:
        """Its resident memory in MB."""
        return resident_bytes(self._process.pid, "VmRSS") / 1e6
