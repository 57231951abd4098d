"""How long a test waits for what must happen."""

from __future__ import annotations

ENOUGH_S = 400.0
"""For a real process, page or connection, on a machine that ten others keep busy; nothing depends on it."""
