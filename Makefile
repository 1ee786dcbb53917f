# The commands of the project. `make` alone lists them. Paths are relative throughout: a checkout may stand anywhere.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help demo test lint unit coverage bench man pins clean ready ready-dev

# PYTHON=/path/to/python names the interpreter that .venv is made with; any from 3.11 on.
PYTHON ?=
export PYTHON
# Variables that would lead Python astray; tools/bootstrap.py does the same for pip.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV
# With it, each of the hundreds of commands and servers that tests start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

BOOTSTRAP := tools/python tools/bootstrap.py
PY := .venv/bin/python

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

ready:
	@$(BOOTSTRAP)

ready-dev:
	@$(BOOTSTRAP) dev

demo: ready ## the main job on a simulated host, in under a minute; KEEP=1 leaves it running
	@$(PY) tools/demo.py $(if $(KEEP),--keep)

test: ready-dev lint unit ## what needs only Python: linters, types, import rules, unit tests and stories

lint: ready-dev ## ruff, mypy and the import rules
	$(PY) -m ruff check src tests tools bench
	$(PY) -m mypy
	$(PY) -c 'import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())'

unit: ready-dev ## unit tests and stories
	$(PY) -m pytest -q -n auto

coverage: ready-dev ## the same, and what of the code they reach; counting makes them half as slow again
	$(PY) -m pytest -q -n auto --cov --cov-report=term

BENCHES := scan hosts cli listing serve api "api --database postgresql" bind "bind --database postgresql" placement

bench: ready-dev ## figures against floors: scan, commands, memory, API, binds; all run, though one may miss its goal
	@missed=0; for program in $(BENCHES); do echo; echo "bench.$$program"; $(PY) -m bench.$$program || missed=1; done; exit $$missed

man: ready ## man pages and shell completions, below build/share
	@$(PY) tools/man.py

pins: ## write constraints.txt anew, with the newest versions that pyproject.toml allows
	@tools/python tools/pins.py

clean: ## remove what the commands above made
	rm -rf .venv .stamps .demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.*
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +

# Further tiers, each in a file of its own: kernel, real, openstack.
-include mk/*.mk
