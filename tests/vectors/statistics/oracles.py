"""Makes rows.csv and oracles.json: rows of a made-up trial, and what other programs find in them.

Needs statsmodels 0.15, lifelines 0.30, tableone 0.9 and pandas, which the tests do not:

    pip install statsmodels lifelines tableone pandas && python tests/vectors/statistics/oracles.py
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import lifelines
import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from lifelines.statistics import multivariate_logrank_test
from tableone import TableOne

HERE = Path(__file__).parent
ROWS = 480
FORMULAS = {
    "binomial": ("died ~ age + sex + age:sex + bmi", sm.families.Binomial()),
    "gaussian": ("bmi ~ age + arm", sm.families.Gaussian()),
    "poisson": ("visits ~ age + sex + sex:arm + smoker", sm.families.Poisson()),
}


def made() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    sex, arm = (
        rng.choice(["f", "m"], ROWS, p=[0.6, 0.4]),
        rng.choice(["A", "B", "C"], ROWS, p=[0.4, 0.35, 0.25]),
    )
    smoker = rng.choice(["no", "yes", ""], ROWS, p=[0.6, 0.33, 0.07])
    age = np.clip(np.rint(10 * rng.normal(61 + 3 * (arm == "B"), 11)) / 10, 18, 99)
    bmi = np.round(rng.normal(26 + 0.03 * age + (sex == "m"), 4), 1)
    risk = 0.05 * (age - 60) + 0.6 * (sex == "m") - 0.5 * (arm == "C")
    ends, stops = np.ceil(rng.exponential(260 * np.exp(-risk))), np.ceil(rng.uniform(20, 400, ROWS))
    return pd.DataFrame(
        {
            "site": rng.choice(3, ROWS, p=[0.5, 0.3, 0.2]),
            "age": age,
            "bmi": np.where(rng.random(ROWS) < 0.1, np.nan, bmi),
            "visits": rng.poisson(np.exp(0.4 + 0.015 * (age - 60) + 0.3 * (smoker == "yes"))),
            "days": np.minimum(ends, stops).astype(int),
            "died": (ends <= stops).astype(int),
            "sex": sex,
            "arm": arm,
            "smoker": smoker,
        }
    )


def model(rows: pd.DataFrame, formula: str, family: object) -> dict[str, object]:
    is_linear = isinstance(family, sm.families.Gaussian)
    fit = smf.glm(formula, rows, family=family).fit(tol=1e-15, maxiter=200, use_t=is_linear)
    return {
        "estimates": dict(fit.params),
        "errors": dict(fit.bse),
        "p": dict(fit.pvalues),
        "intervals": {name: list(ends) for name, ends in fit.conf_int().iterrows()},
        "deviance": fit.deviance,
        "null": fit.null_deviance,
        "rows": fit.nobs,
    }


def columns_by(rows: pd.DataFrame, by: str) -> dict[str, object]:
    names = ["age", "bmi", "visits"]
    groups = {"all": rows, **dict(iter(rows.groupby(by)))}
    return {
        group: {
            name: [
                own[name].count(),
                own[name].mean(),
                own[name].std(),
                *own[name].quantile([0.25, 0.5, 0.75]),
            ]
            for name in names
        }
        for group, own in groups.items()
    }


def tests_by(rows: pd.DataFrame, by: str) -> dict[str, object]:
    names = ["age", "bmi", "smoker", "died"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = TableOne(
            rows[[*names, by]].replace("", np.nan),
            categorical=["smoker", "died"],
            groupby=by,
            pval=True,
            smd=True,
            htest_name=True,
            include_null=False,
        )
    return {
        "p": {name: float(table.htest_table["P-Value"][name]) for name in names},
        "smd": {
            column: {name: float(value) for name, value in table.smd_table[column].items()}
            for column in table.smd_table
        },
        "names": {name: table.htest_table["Test"][name] for name in names},
    }


def survival(rows: pd.DataFrame) -> dict[str, object]:
    curves = {}
    for arm, own in rows.groupby("arm"):
        fit = lifelines.KaplanMeierFitter().fit(own["days"], own["died"])
        at = [50, 100, 200, 300]
        band = fit.confidence_interval_survival_function_.reindex(at, method="ffill")
        curves[arm] = {
            "at": at,
            "survival": fit.survival_function_at_times(at).tolist(),
            "low": band.iloc[:, 0].tolist(),
            "high": band.iloc[:, 1].tolist(),
            "median": fit.median_survival_time_,
        }
    test = multivariate_logrank_test(rows["days"], rows["arm"], rows["died"])
    x = np.stack([rows["age"], rows["sex"] == "m", rows["arm"] == "B", rows["arm"] == "C"], 1).astype(float)
    cox = sm.PHReg(rows["days"], x, status=rows["died"], ties="breslow").fit()
    names = ["age", "sex: m", "arm: B", "arm: C"]
    return {
        "curves": curves,
        "log-rank": [test.test_statistic, test.degrees_of_freedom, test.p_value],
        "cox": {
            "estimates": dict(zip(names, cox.params, strict=True)),
            "errors": dict(zip(names, cox.bse, strict=True)),
        },
    }


def main() -> None:
    made().to_csv(HERE / "rows.csv", index=False)
    rows = pd.read_csv(HERE / "rows.csv", keep_default_na=True)
    rows["smoker"] = rows["smoker"].fillna("")
    known = rows.assign(smoker=rows["smoker"].replace("", np.nan))
    found = {
        "columns": {by: columns_by(rows, by) for by in ("sex", "arm")},
        "tests": {by: tests_by(rows, by) for by in ("sex", "arm")},
        "correlations": {f"{a} {b}": rows[a].corr(rows[b]) for a, b in (("age", "bmi"), ("age", "visits"))},
        "models": {name: {"formula": f, **model(known, f, family)} for name, (f, family) in FORMULAS.items()},
        "survival": survival(rows),
    }
    (HERE / "oracles.json").write_text(json.dumps(found, indent=1, default=float, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
