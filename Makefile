# Covey's workshop. `make` alone lists what there is. Nothing here needs root or npm.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo race suite test verify fix bench plants cargo dashboard page-test check-dashboard promtool lint-metrics grafana \
  check-prometheus check-otel fuzz-events bench-events check-zmq

CARGO ?= cargo
# Passed on to what a target runs: make demo ARGS='--gateways 4 --json out.json'
ARGS ?=

# Where `make plants` writes its figures, if anywhere.
JSON ?=
PLANTS_DIR := $(CURDIR)/target/plants

DENY_VERSION := 0.20.2
TOOLS := $(CURDIR)/target/tools

# The other routers that `make race` runs, as their makers publish them.
RACE_PINS := vllm-router==0.1.17 sglang-router==0.3.2
RACE_VENV := $(CURDIR)/target/race-venv

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18 | sed 's/^/  make /'

cargo:
	@command -v $(CARGO) > /dev/null || { \
	  echo "Covey is built with cargo, which is not on the PATH. Install Rust (1.95 or newer) from https://rustup.rs" >&2; \
	  exit 1; }

demo: cargo ## Build the binaries and compare gateways with and without the mesh (ARGS='--gateways 4 …')
	@if command -v npm > /dev/null; then echo "building the dashboard's page"; \
	  $(MAKE) --no-print-directory --silent dashboard > /dev/null || \
	  echo "the page could not be built (make dashboard says why): gateways serve the plain one"; \
	  else echo "npm is not here: gateways serve the dashboard's plain page"; fi
	@echo "building covey and covey-sim (release; the first time takes a few minutes)"
	@$(CARGO) build --release --quiet -p covey-gateway-plugin --bin covey -p covey-sim --bin covey-sim
	@exec "$${CARGO_TARGET_DIR:-target}/release/covey-sim" demo $(ARGS)

race: cargo ## Race Covey against vllm-router and sglang-router under one load (ARGS='--gateways 3 …'; needs pip)
	@pins="$(RACE_PINS)"; if [ "$$(cat "$(RACE_VENV)/pins" 2> /dev/null)" != "$$pins" ]; then \
	  echo "installing $$pins from PyPI into target/race-venv (once)"; mkdir -p "$(dir $(RACE_VENV))"; \
	  if ! { python3 -m venv --clear "$(RACE_VENV)" && "$(RACE_VENV)/bin/pip" install --quiet --disable-pip-version-check \
	    --only-binary :all: $$pins && echo "$$pins" > "$(RACE_VENV)/pins"; } > "$(RACE_VENV).log" 2>&1; then \
	    tail -n 3 "$(RACE_VENV).log"; \
	    echo "SKIPPED: race (the other routers cannot be installed: it needs Python 3 with venv and pip, and PyPI;" \
	      "on Debian: apt-get install python3-venv)"; exit 0; \
	  fi; fi; \
	echo "building covey and covey-sim (release; the first time takes a few minutes)"; \
	$(CARGO) build --release --quiet -p covey-gateway-plugin --bin covey -p covey-sim --bin covey-sim; \
	exec "$${CARGO_TARGET_DIR:-target}/release/covey-sim" race --routers "$(RACE_VENV)/bin" $(ARGS)

suite: cargo ## The published comparison in virtual time, whole: 240 workers, a hundred legs (a quarter of an hour; ARGS='--quick')
	@echo "building covey-sim (release; the first time takes a few minutes)"
	@$(CARGO) build --release --quiet -p covey-sim --bin covey-sim
	@exec "$${CARGO_TARGET_DIR:-target}/release/covey-sim" eval --suite published $(ARGS)

test: cargo promtool page-test ## Run every test of the workspace, doc tests included
	@$(CARGO) test --workspace --no-fail-fast $(ARGS)
	@# A build of the core with planted bugs in it: each must be found, and nothing without one.
	@$(CARGO) test -p covey-sim --features plants --test plants
	@$(MAKE) --no-print-directory check-otel check-prometheus

# Debian's package `prometheus` has promtool and a server; it is never left running. Rules and metrics are tried with
# promtool wherever it is; without it the tests say so and try the rest.
promtool:
	@if ! command -v promtool > /dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  echo "installing Debian's prometheus (once), which has promtool"; \
	  { apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    prometheus; } > /dev/null 2>&1 || true; \
	  ! command -v systemctl > /dev/null || systemctl disable --now prometheus > /dev/null 2>&1 || true; fi
	@command -v promtool > /dev/null || \
	  echo "SKIPPED: promtool's checks of metrics and alert rules (install Debian's package prometheus)"

lint-metrics: cargo promtool ## Check metrics, alert rules and the Grafana dashboard with promtool and against a gateway
	@if command -v promtool > /dev/null; then export COVEY_PROMTOOL=promtool; fi; \
	  $(CARGO) test -p covey-gateway-plugin --test it $(ARGS) ops::

check-prometheus: cargo promtool ## A real Prometheus scrapes three gateways and is queried; one is killed
	@if command -v prometheus > /dev/null; then \
	  $(CARGO) test -p covey-gateway-plugin --test prometheus $(ARGS) -- --nocapture; \
	  else echo "SKIPPED: check-prometheus (install Debian's package prometheus)"; fi

check-otel: cargo ## Traces of decisions (feature `otel`) against a collector that decodes them
	@$(CARGO) test -p covey-gateway-plugin --features otel-check --test otel $(ARGS)

grafana: cargo ## Write gateway-plugin/ops/covey.grafana.json anew
	@$(CARGO) run --quiet -p covey-gateway-plugin --example grafana > gateway-plugin/ops/covey.grafana.json.new
	@mv gateway-plugin/ops/covey.grafana.json.new gateway-plugin/ops/covey.grafana.json

plants: cargo ## Hunt for every planted bug and print the table (JSON=FILE also writes it there)
	@# In a directory of its own: no binary that people run is built with planted bugs.
	@$(CARGO) build --release --quiet -p covey-sim --bin covey-sim --features plants --target-dir "$(PLANTS_DIR)"
	@"$(PLANTS_DIR)/release/covey-sim" swarm --plant all $(if $(JSON),--json "$(JSON)") $(ARGS)

verify: cargo ## Check formatting, lints, docs, isolation, tidiness and licences; changes nothing
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	$(CARGO) test --quiet -p covey-benches --test tidy
	$(CARGO) clippy -p covey-gateway-plugin --features otel-check --all-targets --quiet -- -D warnings
	$(CARGO) clippy -p covey-gateway-plugin --test prometheus --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc -p covey-gateway-plugin --features otel --no-deps --quiet
	$(CARGO) clippy -p covey-sim --features plants --all-targets --quiet -- -D warnings
	@if $(CARGO) tree -p covey-gateway-plugin -e normal --prefix none -f '{f}' | grep -w plants; then \
	  echo "a gateway must not be built with planted bugs (above)" >&2; exit 1; fi
	@# Alone, because a workspace build unifies features and would hide that the simulator needs a socket.
	$(CARGO) check --quiet -p covey-sim
	@if $(CARGO) tree -p covey-sim -e normal --prefix none | grep -E '^(quinn|chitchat)'; then \
	  echo "the simulator must not link the mesh's network driver (above)" >&2; exit 1; fi
	@if ! PATH="$(TOOLS)/bin:$$PATH" $(CARGO) deny --version > /dev/null 2>&1; then \
	  echo "installing cargo-deny $(DENY_VERSION) into target/tools (once)"; \
	  $(CARGO) install --quiet --locked --root "$(TOOLS)" cargo-deny@$(DENY_VERSION) || true; fi
	@if PATH="$(TOOLS)/bin:$$PATH" $(CARGO) deny --version > /dev/null 2>&1; then \
	  PATH="$(TOOLS)/bin:$$PATH" $(CARGO) deny --log-level error check licenses bans sources; \
	  else echo "SKIPPED: licences, bans and sources (cargo-deny could not be installed)"; fi
	@echo "verified"

fix: cargo ## Format, and apply what clippy can mend by itself
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all

fuzz-events: cargo ## Damaged messages of engines against all that reads them, ten minutes (FUZZ_SECONDS=600 FUZZ_SEED=…)
	@$(CARGO) run --quiet -p covey-gateway-plugin --example fuzz_events $(ARGS)

check-zmq: cargo ## The reader of engines' events against the real libzmq (needs Python with pyzmq)
	@if python3 -c 'import zmq' 2> /dev/null; then COVEY_ZMQ_PYTHON=python3 \
	  $(CARGO) test -p covey-gateway-plugin --lib $(ARGS) the_real_library; \
	  else echo "SKIPPED: check-zmq (python3 -m pip install pyzmq)"; fi

bench-events: cargo ## What recorded messages of 2,000 engines cost to read and apply (release; budget 10 % of a core)
	@$(CARGO) run --quiet --release -p covey-gateway-plugin --no-default-features --example fuzz_events -- --cost

bench: cargo ## Time the hot paths against their budgets
	$(CARGO) run --release -p covey-benches

DASHBOARD := gateway-plugin/dashboard

dashboard: ## Build the convergence page into gateway-plugin/dashboard/dist (needs npm)
	@command -v npm > /dev/null || { \
	  echo "The convergence page is built with npm, which is not on the PATH (Node 20.19 or newer: https://nodejs.org)." >&2; \
	  echo "Without it gateways serve the plain page, /plain, instead." >&2; \
	  exit 1; }
	@cd $(DASHBOARD) && npm ci --no-audit --no-fund --loglevel=error && npm run build --silent

# The page's own unit tests and its size; a machine without npm, or that cannot reach its registry, tries the rest.
page-test:
	@if ! command -v npm > /dev/null; then echo "SKIPPED: tests of the dashboard's page (npm is not here)"; \
	elif ! (cd $(DASHBOARD) && npm ci --no-audit --no-fund --loglevel=error > /dev/null); then \
	  echo "SKIPPED: tests of the dashboard's page (npm cannot install what they need)"; \
	else cd $(DASHBOARD) && npm run build --silent && npm test --silent; fi

check-dashboard: cargo dashboard ## Test the page: its parts, then in a real Chromium against real gateways and a playback
	@cd $(DASHBOARD) && npm test --silent
	@if ! [ -x "$${CHROMIUM:-/usr/bin/chromium}" ] && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  echo "installing chromium"; \
	  { apt-get update && apt-get install -y chromium; } > /dev/null 2>&1 || true; fi
	@if ! [ -x "$${CHROMIUM:-/usr/bin/chromium}" ]; then \
	  echo "SKIPPED: tests in a browser (no Chromium; install it, or set CHROMIUM to one)"; \
	else \
	  $(CARGO) build --quiet -p covey-gateway-plugin --bin covey -p covey-sim --bin covey-sim && \
	  cd $(DASHBOARD) && npm run e2e --silent; fi
