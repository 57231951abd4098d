# `make demo` and `make test` work straight after clone: they need Python 3.11 or newer, and make.
# make VENV=DIR uses another environment; make PYTHON=python3.12 another interpreter.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BENCHMARKS ?= shares secagg floor rounds memory messages calibration noise gradients rates audit clients aggregators allocation page tls siege spoilers starting steps defaults
DIST ?= dist

PY := $(VENV)/bin/python
# All tests at once, a process more than there are cores, as some wait for others' processes: worksteal keeps
# the tests of a file together, and no worker idle.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SIDE_BY_SIDE := -n $(WORKERS) --dist worksteal -p tests.progress -o console_output_style=classic --durations=20
# These reach every branch of protocol/ and mechanisms/; a test runs 2.6 times as long under coverage. They have
# a session of their own: what another test has cached is not run again, and not counted.
TRACED := tests/unit/protocol tests/unit/mechanisms tests/unit/test_former_paths.py tests/property tests/vectors \
	$(addprefix tests/simulation/test_masked_,lies.py framing.py once.py)
STAMP := $(VENV)/.installed
OLD_PYTHON := murmuration needs Python 3.11 or newer; name one with: make PYTHON=python3.12

# Without caches each worker and each process that a test starts would compile the whole tree again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test rest coverage flakes check docs bench soak siege model fuzz wheel constraints clean

help: ## this list
	@echo 'usage: make TARGET [ARGS="..."]      ARGS are handed to most of them'
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP) ## five peers on this machine learn to read digits; ends with a table and a report
	@$(PY) -m scenarios run swarm $(ARGS)

test: $(STAMP) ## all tests, and a sample of the cases of the longest; or one pytest with ARGS (--full: all cases)
	@$(PY) -m pytest $(or $(ARGS),$(SIDE_BY_SIDE))

rest: $(STAMP) ## all cases of the tests that `make coverage` does not run
	@$(PY) -m pytest --full $(SIDE_BY_SIDE) $(addprefix --ignore=,$(TRACED)) $(ARGS)

coverage: $(STAMP) ## the branch coverage of protocol/ and mechanisms/, which must be 100 %
	@$(PY) -m pytest --full $(SIDE_BY_SIDE) --cov=protocol --cov=mechanisms $(TRACED) $(ARGS)

flakes: $(STAMP) ## `make test` 5 times, the tests with real processes 10 times, on a busy machine; ARGS=--help
	@$(PY) -m tests.flakes $(ARGS) -- $(SIDE_BY_SIDE)

check: $(STAMP) ## style, types, and the arrows between the packages
	@$(PY) -m ruff check .
	@$(PY) -m mypy & types=$$!; $(VENV)/bin/lint-imports; arrows=$$?; wait $$types && exit $$arrows

docs: $(STAMP) ## the documentation site, into site/index.html; a broken link or a stale table is an error
	@$(PY) -m website.scenario_tables --check
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet $(ARGS)
	@echo 'site/index.html'

bench: $(STAMP) ## the benchmarks: make bench BENCHMARKS="memory" ARGS=--quick
	@for name in $(BENCHMARKS); do $(PY) -m benchmarks $$name $(ARGS) || exit; done

soak: $(STAMP) ## what `make test` leaves out: long seeded schedules, and kill -9 over hundreds of rounds
	@$(PY) -m pytest -m soak $(ARGS)

siege: $(STAMP) ## ten minutes under siege: strangers at the door, wrong clocks, kills; all is as it was afterwards
	@$(PY) -m pytest -m soak --no-cov -q -s -o faulthandler_timeout=1500 tests/e2e/test_siege.py $(ARGS)

model: $(STAMP) ## search every state of the models: the masked protocol, electors and votes (spin, gcc, g++)
	@$(PY) -m pytest --full --no-cov -m '' -k 'not longer' tests/models $(ARGS)
	@$(if $(ARGS),,$(PY) -m tests.models.searched)

fuzz: $(STAMP) ## a coverage-guided fuzzer on the codec and the masked machine, a minute each; needs atheris
	@$(PY) -m tests.fuzz $(ARGS)

wheel: $(STAMP) ## dist/*.whl, built from the source distribution
	@echo 'Building into $(DIST) ...'
	@$(PY) -m build --outdir $(DIST) . >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log >&2; exit 1; }
	@ls $(DIST)/*.whl

constraints: ## choose the newest allowed versions again and write constraints.txt
	@set -e; fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(PYTHON) -m venv "$$fresh/venv"; \
	"$$fresh/venv/bin/python" -m pip install --quiet --editable '.[dev]'; \
	{ sed -n '/^#/p' constraints.txt; \
	  "$$fresh/venv/bin/python" -m pip freeze --all --exclude pip --exclude-editable | sed 's/+[a-z0-9.]*$$//'; } >"$$fresh/new"; \
	cp "$$fresh/new" constraints.txt

clean: ## remove the environment, caches and what was built (runs/ stays: it holds models)
	@if test -f $(VENV)/pyvenv.cfg; then rm -rf $(VENV); fi
	@rm -rf build dist site *.egg-info .coverage .coverage.* htmlcov .hypothesis
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is newer than what it was made from, or the environment is brought up to date.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo '$(OLD_PYTHON)' >&2; exit 1; }
	@echo 'Installing into $(VENV) (torch is large: the first time takes a few minutes) ...'
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt --editable '.[dev]'
	@# Modules are compiled here, on all cores: where Python may not write caches, every process would compile
	@# torch again. Some packages hold files that are no Python of today, tests of their own, and whole products.
	@$(PY) -m compileall -qq -j 0 -x '/tests?/|/ray/(air|data|llm|rllib|serve|train|tune)/' $(VENV)/lib || :
	@touch $@
