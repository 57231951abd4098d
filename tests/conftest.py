"""One thread for each pytest that runs beside others: more would only wait for each other."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # numpy and torch read it when they are loaded
