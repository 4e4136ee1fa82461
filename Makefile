# make demo              install into .venv, then show a move of a running training job and a live service
# make demo ARGS=...     the same with arguments, e.g. ARGS='--break gate --report demo-report'
# make test              all checks and tests (ARGS='-k fence tests/unit' for some)
# make check             format, lint, types, layers
# make bench             all benchmarks
# make dst SEEDS=1000    simulated migrations under faults
# make docs              write the generated references anew
# make clean             remove all that was made here
#
# PYTHON=python3.12 names another interpreter; PINS=none ignores constraints.txt.

PYTHON ?= python3
PINS ?= pinned
SEEDS ?= 1000
ARGS ?=
export PYTHON PINS
unexport PYTHONDONTWRITEBYTECODE # tests start thousands of Pythons, and each would compile all modules anew

.PHONY: demo test check bench dst docs clean installed-demo installed-test

demo: installed-demo
	@.venv/bin/bridgehead demo $(ARGS)

test: installed-test
	@tools/servers.sh
	@.venv/bin/python -m pytest -n 3 --dist worksteal -m "not demo" $(ARGS)
	@.venv/bin/python -m pytest -m demo tests/e2e tests/lab  # one at a time: they measure time

check: installed-test
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: installed-demo
	@set -e; for script in bench/*.py; do echo "== $$script"; .venv/bin/python "$$script"; done

dst: installed-demo
	@.venv/bin/bridgehead dst --seeds $(SEEDS)

docs: installed-demo
	.venv/bin/python tools/write_errors.py
	.venv/bin/python tools/write_cli.py
	.venv/bin/python tools/write_registry.py
	.venv/bin/python tools/write_watch.py

installed-demo:
	@tools/venv.sh demo

installed-test:
	@tools/venv.sh demo,test

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist demo-report
	find . -path ./.git -prune -o \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +
