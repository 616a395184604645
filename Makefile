# Every target works in .venv of this checkout and makes it when it is missing.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH := torch>=2.6,<2.14
IMPLEMENTATIONS := eager numpy_scratch torch_nn
ALL := $(IMPLEMENTATIONS) compiled
JOBS := 2
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

export OMP_NUM_THREADS ?= 1

.NOTPARALLEL:
.PHONY: run test slow torture conformance conformance-foreign matrix conformance-compiled unusual fresh selftest mutation gpu-emulation reports lint docs clean

# Judge our eager implementation. The report goes to reports/eager/, which git ignores.
run: $(STAMP)
	$(BIN)/attest run --impl eager -n $(JOBS)

# The tests of the harness and of our implementations, those that take minutes left out.
test: $(STAMP)
	$(BIN)/python -m pytest -q -n $(JOBS) -m "not slow" tests

# Hostile plugins, cheats, signals, mishaps, wrong command lines and fuzzed files, an hour; the tables go into
# docs/robustness.md. `make torture RESUME=--resume` goes on where a run stopped.
torture: $(STAMP)
	cd tests && ../$(BIN)/python -m torture --write $(RESUME)

# The tests that `make test` leaves out, and those of the kept reports.
slow: $(STAMP)
	$(BIN)/python -m pytest -q -n $(JOBS) -m slow tests

# Put the harness on trial, judge all our implementations again, and require of the new reports in reports/ what
# the kept ones show: `attest diff` ends with 1 where a verdict is worse. No tracked file changes.
conformance: selftest fresh slow
	$(MAKE) unusual SEEDS=0..1 PROFILE=quick
	ATTEST_REPORTS=reports $(BIN)/python -m pytest -q -m slow tests/test_kept_reports.py
	for name in $(ALL); do \
		$(BIN)/attest diff reports/kept/$$name/report.json reports/$$name/report.json || exit 1; done

# Models and layers of other libraries, by the same criteria at quick: the families of transformers and what
# examples/ shows. It installs the libraries, those of the examples apart: litgpt holds transformers at an older
# version. The reports go to reports/peers/; exit code 1 is no failure here.
FAMILIES := bert gpt2 gpt_neox llama mistral qwen2 t5
FOREIGN := .venv-foreign
conformance-foreign: $(STAMP)
	$(BIN)/python -m pip install -q "$(TORCH)" -e ".[peers]"
	test -x $(FOREIGN)/bin/python || $(BIN)/python -m venv $(FOREIGN)
	$(FOREIGN)/bin/python -m pip install -q "$(TORCH)"
	$(FOREIGN)/bin/python -m pip install -q -e ".[foreign,dev]"
	$(BIN)/attest run $(FAMILIES:%=--impl hf:%,attention=sdpa) $(FAMILIES:%=--impl hf:%,attention=eager) \
		--impl hf:bloom,attention=eager --profile quick -n $(JOBS) --reports reports/peers || test $$? -eq 1
	for file in examples/*.py; do $(FOREIGN)/bin/attest run --impl $$file --open -m M7 -m M8 -m M9 --profile quick \
		-n $(JOBS) --reports reports/peers || test $$? -eq 1 || exit 1; done
	$(BIN)/python -m pytest -q tests/test_findings.py
	$(FOREIGN)/bin/python -m pytest -q tests/test_findings.py tests/test_examples.py

# Keep what conformance-foreign has written, and write the table over everything that is kept.
matrix: $(STAMP)
	for home in reports/peers/*; do test -f $$home/report.json || continue; \
		kept=reports/kept/peers/$$(basename $$home); rm -rf $$kept && mkdir -p $$kept/ && cp -r $$home/. $$kept/ && \
		rm -rf $$kept/records.jsonl $$kept/repro $$kept/badges || exit 1; done
	$(BIN)/attest matrix reports/kept/*/report.json reports/kept/peers/*/report.json -o reports/kept

# Correct implementations that are written in unusual ways: none may be refused, whatever the seed. An hour on two cores.
SEEDS := 0..19
PROFILE := standard
unusual: $(STAMP)
	$(BIN)/attest trial tests/unusual.py --seeds $(SEEDS) --profile $(PROFILE) -n $(JOBS)

# Judge all our implementations; the reports go to reports/, which git ignores. Exit code 1 is no failure here:
# some implementations leave milestones open. What each must reach is in tests/test_kept_reports.py. compiled
# pays for every graph: quick, and by itself.
fresh: $(STAMP)
	$(BIN)/attest study norm --impl eager
	$(BIN)/attest run $(IMPLEMENTATIONS:%=--impl %) -n $(JOBS) --report html || test $$? -eq 1
	$(BIN)/attest run --impl eager,dtype=bfloat16 -m M1 -m M2 -m M3 -m M4 -n $(JOBS) --report none
	$(BIN)/attest run --impl compiled $(addprefix -m M,1 2 3 4 5 6) -m MC --profile quick -n $(JOBS) --report html || \
		test $$? -eq 1

# The decoder-only models of compiled: some 20 s of one core for each graph, so more than half an hour when nothing
# is in the cache of graphs.
conformance-compiled: $(STAMP)
	$(BIN)/attest run --impl compiled -m M7 -m M8 -m M9 --profile quick -n $(JOBS) --reports reports/decoder_only --report html

# Show that every known defect is found; writes reports/selftest.json, which the HTML reports then show.
selftest: $(STAMP)
	$(BIN)/attest selftest -n $(JOBS)

# How many faults made out of eager's source are caught: an hour or two, see docs/trial.md. Those that
# tests/survivors/eager.toml explains count as what is said there; `attest mutate --listed` judges them.
# `make mutation RESUME=--resume` goes on where a run stopped.
MUTANTS := 600
mutation: $(STAMP)
	$(BIN)/attest mutate --impl eager $(addprefix -m M,1 2 3 4 5 6) --count $(MUTANTS) --annotations tests/survivors/eager.toml --trusting -n $(JOBS) $(RESUME)

# What each kind of positions loses beyond the length of training: three minutes of one core.
.PHONY: study
study: $(STAMP)
	$(BIN)/attest study positions --impl eager

# Make new reports and keep them for readers in reports/kept/, the only reports in the repository. A benchmark
# is kept too where `attest bench` has left one in reports/.
reports: selftest fresh study
	for name in $(ALL); do \
		rm -rf reports/kept/$$name && cp -r reports/$$name reports/kept/ && \
		rm -rf reports/kept/$$name/records.jsonl reports/kept/$$name/repro || exit 1; done
	cp reports/selftest.json reports/kept/
	for file in $(wildcard reports/bench.*); do cp $$file reports/kept/ || exit 1; done

# The CUDA path of eager and compiled on a device that is emulated in the memory of the host, and every kernel that
# inductor writes compiled for sm_80 and sm_90. Half an hour; `make gpu-emulation KEEP=--keep` keeps the page, and
# PIECES="eager.M1 faults" runs some of it, with the rest as it was.
gpu-emulation: $(STAMP)
	$(BIN)/python -m pip install -q -e ".[triton]" ninja
	cd tests && ../$(BIN)/python -m gpu_emulation $(if $(PIECES),--only $(PIECES)) $(KEEP)

# Style and types.
lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Write the pages of docs/ that are made from the spec.
docs: $(STAMP)
	$(BIN)/attest docs --write
	$(BIN)/attest docs --reach --write

# Remove the environment and what the tools leave behind; reports stay.
clean:
	rm -rf $(VENV) $(FOREIGN) build dist *.egg-info harness/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The environment, made again when pyproject.toml changes.
# torch comes first: resolved together with the rest, pip may fetch several versions of it.
$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; install it or set PYTHON"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q "$(TORCH)"
	$(BIN)/python -m pip install -q -e ".[torch,report,dev]"
	touch $@
