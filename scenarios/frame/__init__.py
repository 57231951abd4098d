"""What every scenario has: a folder, a terminal, child processes, a report."""
