"""The common parts of command lines: layers of settings, errors, interrupts."""
