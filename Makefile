# Every target works in .venv of this checkout and makes it when it is missing.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH := torch>=2.6,<2.14
IMPLEMENTATIONS := eager numpy_scratch torch_nn
JOBS := 2
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

export OMP_NUM_THREADS ?= 1

.PHONY: run test slow conformance selftest reports lint docs clean

run: $(STAMP)
	$(BIN)/attest run --impl eager -n $(JOBS)

test: $(STAMP)
	$(BIN)/python -m pytest -q -n $(JOBS) -m "not slow" tests

slow: $(STAMP)
	$(BIN)/python -m pytest -q -n $(JOBS) -m slow tests

conformance: reports selftest slow

# Exit code 1 is no failure here: some implementations leave milestones open. What each must reach is in
# tests/test_kept_reports.py, which `make slow` runs. compiled pays for every graph: quick, and by itself.
reports: $(STAMP)
	$(BIN)/attest study norm --impl eager
	$(BIN)/attest run $(IMPLEMENTATIONS:%=--impl %) -n $(JOBS) --report html || test $$? -eq 1
	$(BIN)/attest run --impl eager,dtype=bfloat16 -m M1 -m M2 -m M3 -m M4 -n $(JOBS) --report none
	$(BIN)/attest run --impl compiled --profile quick -n $(JOBS) --report html || test $$? -eq 1

selftest: $(STAMP)
	$(BIN)/attest selftest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)
	$(BIN)/attest docs --write

clean:
	rm -rf $(VENV) build dist *.egg-info harness/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# torch comes first: resolved together with the rest, pip may fetch several versions of it.
$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; install it or set PYTHON"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q "$(TORCH)"
	$(BIN)/python -m pip install -q -e ".[torch,report,dev]"
	touch $@
