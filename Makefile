# What there is to do: `make help`. Everything runs from one virtual environment, .venv;
# with SPARK=3.5 from another, .venv-spark3.5, for that line of Spark (docs/targets/spark-3.5.md).
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-all run docs lint test test-core test-all bench wheel lock clean

PYTHON ?= $(shell command -v python3.11 || command -v python3)
SPARK ?= 4.1
ifeq ($(SPARK),4.1)
VENV := .venv
LOCK := requirements.lock
CHECKED := lint
else
VENV := .venv-spark$(SPARK)
LOCK := spark$(SPARK)/requirements.lock
INSTEAD := --override spark$(SPARK)/requirements.in
# The linters look at our text, which is the same; mypy knows the default's PySpark.
CHECKED := setup
endif
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# With TESTERS=2 there are two processes, each with a Spark of its own. That pays from four cores on:
# one Spark keeps two busy.
TESTERS ?= 1
SHARED := $(if $(filter-out 1,$(TESTERS)),--numprocesses $(TESTERS) --dist loadgroup --no-loadscope-reorder)
# What `make test-core` runs: a few minutes that touch most of what Spark does here.
CORE := $(addprefix tests/, python $(addprefix functional/test_, convergence.py drift.py snapshots.py \
  landing.py::test_bad_rows_are_dead_letters_and_the_good_ones_land \
  landing.py::test_odd_file_names_are_read domains.py::test_films_get_a_column_while_they_change \
  job.py::test_a_job_lands_builds_tells_and_fails_with_the_tables \
  dbt_expectations.py::test_counts_are_the_known_ones))

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(VENV)/ready ## Install what is needed: Python packages, jars, dbt packages
	@$(BIN)/python -m tidemark.spark.jars
	@$(BIN)/python -m compat

# Checked against the checksums of requirements.lock. PIP_INDEX_URL names a mirror of PyPI,
# TIDEMARK_MAVEN_MIRROR one of Maven Central, DBT_PACKAGE_HUB_URL one of the dbt hub.
$(VENV)/ready: $(LOCK) pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 was not found: install it, or name it with make PYTHON=..."; exit 1; }
	@$(PYTHON) python/tidemark/spark/java.py
	@echo "Installing the Python packages into $(VENV) (about two minutes, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# For the target `glue`; its own requirements name another dbt-core than ours, hence --no-deps.
$(VENV)/glue-ready: aws/dbt-glue.lock $(VENV)/ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

demo: setup ## Two days of sample changes become tables
	@$(BIN)/tidemark demo

demo-all: setup ## The same with every domain in examples/ (about ten minutes)
	@$(BIN)/tidemark demo --all

run: setup ## Land new files and build what depends on them
	@$(BIN)/tidemark run

docs: setup ## Write the documentation and serve it
	@$(BIN)/tidemark docs

lint: setup ## Check style and types: SQL, Python, YAML
	@$(BIN)/ruff format --check --quiet python compat tests examples models bench
	@$(BIN)/ruff check --quiet python compat tests examples models bench
	@$(BIN)/mypy
	@$(BIN)/python -m tests.lint
	@TIDEMARK_LAKE=.tidemark/lint $(BIN)/sqlfluff lint --quiet --disable-progress-bar --processes 1 models tests/singular

test: $(CHECKED) $(VENV)/glue-ready ## Lint, then the tests that protect users most
	@$(PYTEST) $(SHARED) -m 'not slow'

test-core: setup ## A few minutes of them; CI's share on Spark 3.5
	@TIDEMARK_CASES=20 TIDEMARK_BATCHES=2 $(PYTEST) -m 'not slow' $(CORE)

test-all: $(CHECKED) $(VENV)/glue-ready ## All tests, the slow ones included
	@TIDEMARK_CASES=3000 $(PYTEST) $(SHARED)

bench: setup ## Measure against a hand-written Spark job, side by side
	@$(BIN)/python -m bench

# The same commit gives the same bytes.
wheel: $(VENV)/ready ## Build the package into dist/
	@rm -rf build dist python/tidemark.egg-info
	@umask 022 && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
	  $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@rm -rf build && ls dist/*.whl

# The lines differ in what they must: the other lock starts from the default's versions.
lock: $(VENV)/ready ## Update requirements.lock from pyproject.toml and requirements.in
	@$(BIN)/python -m pip install --quiet uv
	@test $(LOCK) = requirements.lock || cp requirements.lock $(LOCK)
	@$(BIN)/uv pip compile --quiet --no-strip-extras --generate-hashes --no-header --no-annotate --python-version 3.11 --extra aws --extra thrift pyproject.toml requirements.in $(INSTEAD) --output-file $(LOCK)

clean: ## Remove the lake and what was generated; your landing folder stays
	rm -rf .tidemark .tidemark-spark* target logs dbt_packages
