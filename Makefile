# make lab    opens the notebooks
# make test   runs every notebook and every test
# make chaos  kills and suspends workers a thousand times, and looks whether anything was lost
#
# Both set up .venv on first use. Nothing outside this folder is changed: what Jupyter, IPython and
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

.PHONY: lab test chaos notebooks clean

lab: .venv/ready
	@$(PYTHON) -m jupyter lab $(AS_ROOT) notebooks/00_start_here.ipynb

test: .venv/ready
	@$(PYTHON) -m pytest

chaos: .venv/ready
	@$(PYTHON) tests/chaos.py --kills 1000

# Run all notebooks and store what they print; to be done after a change that they show.
notebooks: .venv/ready
	@$(PYTHON) .ci/store_outputs.py

clean:
	rm -rf .venv leaselab.egg-info .pytest_cache .hypothesis screenshots
	find . -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf

.venv/ready: pyproject.toml .ci/set_up
	@sh .ci/set_up
