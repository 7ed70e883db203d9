# Everything runs in .venv, which holds the exact versions of requirements.lock. Nothing but Python and make is assumed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# Where this is set, each of a thousand processes would compile the project's code anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install quickstart check quick test faults ui everything lock clean

help:
	@echo "make quickstart   train, register and try a toy translation model (minutes on two cores)"
	@echo "make quick        the tests that the changed files reach, a minute at most (SINCE=REVISION: changed since then)"
	@echo "make test         format, lint, types, and every test"
	@echo "make faults       the tests that kill training and fill disks, for minutes"
	@echo "make ui           the tests that drive the Prefect UI; they need Chromium (Debian: apt-get install chromium)"
	@echo "make everything   all of these at once, which takes less time"
	@echo "make check        format, lint and types alone"
	@echo "make install      the environment in .venv alone"
	@echo "make lock         choose versions anew for requirements.lock"
	@echo "make clean        remove .venv and caches; the results in .nmt stay"

install: $(INSTALLED)

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "$(PYTHON) is older than Python 3.11: name another, as in  make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

quickstart: $(INSTALLED)
	$(BIN)/nmt run quickstart

check: $(INSTALLED)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

quick: $(INSTALLED)
	files=$$(PYTHONPATH=tests $(BIN)/python -m support.reach --since $(or $(SINCE),HEAD)) && \
		{ [ -z "$$files" ] || $(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $$files; }

test: check
	$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 40

faults: $(INSTALLED)
	$(BIN)/pytest -m faults --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 0

ui: $(INSTALLED)
	$(BIN)/pytest -m ui --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 0

# Tests that wait for a server or a death leave the cores to those that compute. The slow files come first.
everything: check
	$(BIN)/pytest -m "" --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 60

# torch is held back: its later releases are not tested with the rest.
lock: $(INSTALLED)
	$(BIN)/pip install --quiet uv
	echo "torch==2.13.0" > .venv/constraints.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --quiet --no-header --no-annotate \
		--constraint .venv/constraints.txt | grep -vE "^(nvidia|cuda|triton)" > .venv/versions.txt
	{ grep "^#" requirements.lock; cat .venv/versions.txt; } > .venv/lock.txt && mv .venv/lock.txt requirements.lock

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
