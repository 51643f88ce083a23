# `make` explains the targets. Everything below ~/.cargo/bin and target/tools is found without a login shell.

export PATH := $(HOME)/.cargo/bin:$(CURDIR)/target/tools/node_modules/.bin:$(PATH)
export CARGO_TERM_COLOR ?= auto
export CARGO_TARGET_DIR := $(CURDIR)/target

LOCKED := $(if $(wildcard Cargo.lock),--locked)
# `--workspace --bin`, not `--package`: a package alone turns on fewer features of shared crates, which would build them twice.
# The dev profile optimises too, but not across crates: the first result comes sooner, and `make test` builds the same files.
NUMAMMA := target/debug/numamma
DEMO := target/demo

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup build dist web demo test test-lab soak bench bench-heap intervals validate lab-table judge lint clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | while IFS='	' read -r target text; do printf '  make %-10s %s\n' "$$target" "$$text"; done

setup: ## install the tools that building and testing need
	@scripts/setup --for test

build: ## build the release binary, target/release/numamma
	@scripts/setup --for build
	@$(MAKE) --no-print-directory web
	cargo build $(LOCKED) --release --workspace --bin numamma

dist: ## build target/dist/numamma for other systems: glibc 2.28 and newer, recorded programs 2.17 and newer
	@scripts/setup --for build
	@$(MAKE) --no-print-directory web
	@scripts/dist

web: ## build the pages that the binary carries
	@scripts/setup --for web
	@scripts/web

demo: ## set up, build, record a small OpenMP program, print its report
	@scripts/setup --for demo
	@$(MAKE) --no-print-directory web
	cargo build $(LOCKED) --workspace --bin numamma
	@$(MAKE) --no-print-directory -C workloads build/triad
	@mkdir -p $(DEMO)
	$(NUMAMMA) record --force -o $(DEMO)/triad.numamma -- workloads/build/triad
	$(NUMAMMA) report $(DEMO)/triad.numamma
	@rm -f $(DEMO)/triad.html
	$(NUMAMMA) html $(DEMO)/triad.numamma -o $(DEMO)/triad.html
	@printf '\nThe same report as a page, for any browser: %s\n' '$(CURDIR)/$(DEMO)/triad.html'

test: ## set up, build, lint and run all tests
	@scripts/setup --for test
	@scripts/test

test-lab: ## run the tests that need several NUMA nodes, in emulated guests (docs/LAB.md)
	@scripts/setup --for lab
	cargo build $(LOCKED) --workspace --bin numamma --bin numamma-lab --test lab --test lab_placement
	NUMAMMA_BIN=$(CURDIR)/$(NUMAMMA) NUMAMMA_REQUIRE_PROGRAMS=1 cargo test $(LOCKED) --workspace --test lab --test lab_placement -- --test-threads=1

soak: ## stress the order of allocation events for ten minutes (NUMAMMA_SOAK=SECONDS), check the ring's model further
	@scripts/setup --for test
	NUMAMMA_SOAK=$${NUMAMMA_SOAK:-600} cargo test $(LOCKED) --workspace --lib objects_keep_their_order -- --nocapture
	NUMAMMA_SOAK=1 cargo test $(LOCKED) --workspace --test model

bench: ## measure the budgets
	@scripts/setup --for bench
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory -C workloads
	@benches/run

bench-heap: ## measure what tracking allocations costs, beside other tools
	@scripts/setup --for bench
	@$(MAKE) --no-print-directory web
	@benches/run heap memory

intervals: ## record workloads at growing sampling intervals: who owns which page, and how much of it is still known
	@scripts/setup --for bench
	cargo build $(LOCKED) --workspace --bin numamma --bin interval-table
	NUMAMMA_BIN=$(CURDIR)/$(NUMAMMA) target/debug/interval-table

validate: ## compare estimated counts of accesses with exact ones of the same work (an hour; VALIDATE=--quick: minutes)
	@scripts/setup --for test
	cargo build $(LOCKED) --workspace --bin numamma --bin validate
	NUMAMMA_BIN=$(CURDIR)/$(NUMAMMA) target/debug/validate $(VALIDATE)

lab-table: ## hold predictions against runs in the lab (an hour; LAB_TABLE="--only triad --lab 'ring 4' --repeat 1")
	@scripts/setup --for lab
	cargo build $(LOCKED) --workspace --bin numamma --bin numamma-lab --bin lab-table
	NUMAMMA_BIN=$(CURDIR)/$(NUMAMMA) target/debug/lab-table $(LAB_TABLE)

judge: ## how often what is stated of random programs holds: make judge N=200 SEED=1 (JUDGE=--odd, --even, --mode windows, --verbose, --again)
	@scripts/setup --for test
	cargo build $(LOCKED) --workspace --bin numamma --bin judge
	NUMAMMA_BIN=$(CURDIR)/$(NUMAMMA) target/debug/judge N=$(or $(N),200) SEED=$(or $(SEED),1) $(JUDGE)

lint: ## check format, lints and the rules of the source tree
	@scripts/setup --for build
	@$(MAKE) --no-print-directory web
	@scripts/lint

clean: ## remove what was built
	cargo clean
	rm -rf web/dist web/node_modules
	$(MAKE) --no-print-directory -C workloads clean
