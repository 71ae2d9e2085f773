# make run: set up and start the app.  make test: set up, check and test.  make package: the packages for Linux, into
# dist/.  make package-windows: those for Windows, made and tried on Linux.  make clean: take away all that was made.
# All may be called again at any time.
PYTHON ?= python3
BIN := .venv/bin

.NOTPARALLEL:
.PHONY: run test package package-windows setup setup-tests lint types clean

run: setup
	@$(BIN)/python installer/checkout/run.py

test: setup-tests lint types
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest

package: setup
	@$(BIN)/python installer/package/linux.py

package-windows: setup
	@$(BIN)/python installer/windows/build.py

setup:
	@$(PYTHON) installer/checkout/setup.py

setup-tests:
	@$(PYTHON) installer/checkout/setup.py --for-tests

lint:
	@$(BIN)/ruff check app installer tests resources
	@$(BIN)/ruff format --check app installer tests resources

types:
	@$(BIN)/mypy

clean:
	rm -rf .venv build dist app/updates/baked.py .mypy_cache .ruff_cache .hypothesis
