# The commands that people and CI use. `make demo` and `make test` set themselves up on a machine with
# Python 3.11 or newer and make.
PYTHON ?= $(shell for v in python3.13 python3.12 python3.11 python3; do \
	$$v -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$v && break; done)
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/judge-service

# Packages are installed uncompiled, and each module is compiled when it is first used. Where this is set, every process
# would compile all it imports again: several seconds each, and the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test explore test-netcal check browser lock clean help

help:
	@echo "make demo   install, pull the small embedded model, judge sample cases, write a report"
	@echo "make test   install what tests need, then run the checks and the tests that CI runs"
	@echo "make explore  property tests with new and more examples"
	@echo "make check  linters, types and import rules"
	@echo "make test-netcal  compare with netcal, which brings torch"
	@echo "make lock   resolve the dependencies again"

$(VENV)/.base: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed. Set PYTHON=/path/to/python3."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.lock
	@touch $@

demo: $(VENV)/.base
	@$(RUN) demo

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .

# The browser tests need Chromium. One that is installed is used; else the package manager or Playwright brings it.
browser: $(VENV)/.dev
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || test -n "$$JUDGE_BROWSER" \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get install -qq -y chromium >/dev/null 2>&1; } \
		|| $(BIN)/playwright install chromium >/dev/null 2>&1 \
		|| echo "No Chromium here: the tests in tests/browser will not run. Install chromium or set JUDGE_BROWSER."

test: check browser
	$(RUN) models pull
	$(BIN)/pytest -n auto --dist worksteal

# New examples for the property tests, and more of them. A failure found here becomes an @example of its test.
explore: $(VENV)/.dev
	$(BIN)/pytest -n auto -m hypothesis --hypothesis-profile explore

# netcal brings torch: a second opinion with an environment of its own, not part of `make test`.
test-netcal:
	$(PYTHON) -m venv $(VENV)-netcal
	$(VENV)-netcal/bin/python -m pip install --quiet --disable-pip-version-check -e .[netcal] pytest pytest-asyncio
	$(VENV)-netcal/bin/python -m pytest -o addopts= -o filterwarnings= --confcutdir tests/netcal tests/netcal

lock:
	uv pip compile pyproject.toml --extra build --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-header --no-emit-index-url -o requirements.lock
	uv pip compile pyproject.toml --extra build --extra dev --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-header --no-emit-index-url -c requirements.lock -o requirements-dev.lock

clean:
	rm -rf $(VENV)
