# make lab    opens the notebooks
# make test   runs every notebook and every test
# make chaos  kills and suspends workers a thousand times, and looks whether anything was lost
# make bench  measures leaselab beside others, in five to ten minutes
#
# All set up .venv on first use. Nothing outside this folder is changed: what Jupyter, IPython and
# matplotlib would write into the home directory goes into .venv, too.

HOME_OF := $(CURDIR)/.venv/home
export JUPYTER_CONFIG_DIR := $(HOME_OF)/jupyter/config
export JUPYTER_DATA_DIR := $(HOME_OF)/jupyter/data
export JUPYTER_RUNTIME_DIR := $(HOME_OF)/jupyter/runtime
export JUPYTERLAB_SETTINGS_DIR := $(HOME_OF)/jupyter/settings
export JUPYTERLAB_WORKSPACES_DIR := $(HOME_OF)/jupyter/workspaces
export IPYTHONDIR := $(HOME_OF)/ipython
export MPLCONFIGDIR := $(HOME_OF)/matplotlib

PYTHON := .venv/bin/python
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: lab test chaos bench notebooks clean

lab: .venv/ready
	@$(PYTHON) -m jupyter lab $(AS_ROOT) notebooks/00_start_here.ipynb

test: .venv/ready
	@$(PYTHON) -m pytest

chaos: .venv/ready
	@$(PYTHON) tests/chaos.py --kills 1000

bench: .venv/bench
	@$(PYTHON) tests/bench.py

# Run all notebooks and store what they print; to be done after a change that they show.
notebooks: .venv/ready
	@$(PYTHON) .ci/store_outputs.py

clean:
	rm -rf .venv leaselab.egg-info .pytest_cache .hypothesis screenshots
	find . -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf

.venv/ready: pyproject.toml .ci/set_up
	@sh .ci/set_up

# What is compared with is installed for the bench alone.
.venv/bench: .venv/ready
	@echo "leaselab: adding to .venv what is compared with, once."
	@$(PYTHON) -m pip install --quiet --no-cache-dir --disable-pip-version-check \
		--editable '.[bench]' >.venv/bench.log 2>&1 || { echo "leaselab: the packages for the" \
		"bench could not be installed. Is there a network? What pip said is in .venv/bench.log;" \
		"then type the same command again." >&2; exit 1; }
	@touch $@
