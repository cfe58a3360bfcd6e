# Two commands from a fresh clone: `make repro` (the whole pipeline) and `make test`. Both set .venv up when it is not there.
.PHONY: help setup repro smoke test report bench lint
VENV := .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
IN := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
READY := $(VENV)/.ready

help:
	@echo "make repro   run the pipeline with params.yaml: tasks, Base, RSR-1, RPR-1, RSR-2, RPR-2, direct PPO, tables, report"
	@echo "make smoke   the same in small, in a copy below build/smoke (minutes); params.yaml and data/ stay as they are"
	@echo "make test    all tests;  make bench  measurements;  make report  open the report;  make lint  ruff;  make setup  only .venv"

setup: $(READY)

# torch first and by itself: the CPU build has an index of its own on many systems, and pip must not replace it
$(READY): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; v = sys.version_info[:2]; sys.exit(v not in ((3, 11), (3, 12)) and f"python 3.11 or 3.12 is needed, {sys.executable} is {v[0]}.{v[1]}; name another: make PYTHON=/path/to/python3.12 setup")'
	test -x $(VENV)/bin/python || "$(PYTHON)" -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet torch==2.13.0
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

repro: $(READY)
	$(IN) rsi doctor
	$(IN) dvc repro

smoke: $(READY)
	$(IN) bash rsi/profiles/smoke.sh build/smoke

test: $(READY)
	$(IN) python -m pytest

report: data/results/report.html
	@$(VENV)/bin/python -m webbrowser -t "file://$(CURDIR)/data/results/report.html" || echo "open $(CURDIR)/data/results/report.html in a browser"

bench: $(READY)
	set -e; for script in sandbox_episode rollouts dvc_status; do echo "== $$script"; $(IN) python benchmarks/$$script.py; done

lint: $(READY)
	$(IN) ruff check rsi tests benchmarks
