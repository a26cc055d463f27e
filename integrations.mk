# The tests of adept.integrations with the real frameworks, in environments of their own, which are built once and
# again when their list changes. Stable-Baselines3 and sb3-contrib are in `make test`.

PYTHON ?= python3.11
INTEGRATION_ENVIRONMENTS := frameworks rllib
MODULES_frameworks := sbx, tianshou, skrl, torchrl, trl, peft, rsl_rl
MODULES_rllib := ray.rllib

.PHONY: test-integrations
test-integrations: $(INTEGRATION_ENVIRONMENTS:%=test-integrations-%)  ## the integrations, each with its real framework

# PyTorch first and alone: a range among the other requirements could fetch a build for graphics cards.
.venvs/%/.built: constraints/%.txt
	rm -rf .venvs/$*
	$(PYTHON) -m venv .venvs/$*
	.venvs/$*/bin/pip install --quiet --no-compile torch==2.13.0
	.venvs/$*/bin/pip install --quiet --no-compile --no-deps -r constraints/$*.txt
	touch $@

.PRECIOUS: .venvs/%/.built

# The import comes first: a framework that is missing would only be skipped by its tests.
.PHONY: $(INTEGRATION_ENVIRONMENTS:%=test-integrations-%)
$(INTEGRATION_ENVIRONMENTS:%=test-integrations-%): test-integrations-%: .venvs/%/.built
	.venvs/$*/bin/python -c "import $(MODULES_$*)"
	PYTHONPATH=$(CURDIR)/src OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 .venvs/$*/bin/python -m pytest -q -m integration tests/integrations
