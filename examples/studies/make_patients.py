"""Makes patients.csv, made-up rows that stand for your own: six measurements, and who is ill.

python make_patients.py
"""

from pathlib import Path

import numpy as np

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    measured = rng.normal(size=(1200, 6))
    ill = measured @ [2.0, -1.0, 1.0, 0.5, 0.0, 0.0] + rng.normal(scale=0.5, size=1200) > 0
    rows = np.column_stack([measured, ill])
    header, formats = "a,b,c,d,e,f,ill", ["%.3f"] * 6 + ["%d"]
    np.savetxt(Path("patients.csv"), rows, formats, delimiter=",", header=header, comments="")
