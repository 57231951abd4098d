"""The frame of every scenario: its folder, terminal, child processes and report."""
