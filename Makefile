# The front door: `make help` lists it. Everything is built in build/<preset> by CMake and Ninja.
PRESET ?= release
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)
# Paths below this folder are hashed as relative ones, so that a second clone finds what the first built.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
REPORTS := build/reports
PROGRAMS := fairlead-relay fairlead fairlead-operator fairlead-forwarder
# Debian's gRPC is not instrumented, so TSan takes the folders that do without it.
TSAN_PARTS := link dataplane/src/visit dataplane/src/mesh

.DEFAULT_GOAL := help
.PHONY: help setup packages configure build demo test scenarios check sanitize asan tsan clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install the Debian packages that are missing (sudo when not root)
	@tools/setup all

packages:
	@tools/setup build

configure: packages
	@test -f $(BUILD)/build.ninja || cmake --preset $(PRESET) >/dev/null

build: configure ## build everything into build/release/bin
	@cmake --build $(BUILD) -j $(JOBS)

demo: configure ## a rolling upgrade under live visits [HOMES=1] [FAULT=kill]
	@cmake --build $(BUILD) -j $(JOBS) --target $(PROGRAMS) e2e-upstream e2e-demo
	@$(BUILD)/bin/e2e-demo --report $(REPORTS)/demo.json $(if $(HOMES),--homes $(HOMES)) \
	  $(if $(FAULT),--fault $(FAULT))

test: build ## every unit, simulation and integration test
	@ctest --test-dir $(BUILD) --show-only | sed -n 's/^Total Tests:/tests to run:/p'
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS)

scenarios: configure ## the promised behaviour under faults, measured [ONLY=a4]
	@cmake --build $(BUILD) -j $(JOBS) --target $(PROGRAMS) e2e-upstream e2e-scenarios
	@$(BUILD)/bin/e2e-scenarios --report $(REPORTS)/scenarios.json $(if $(ONLY),--only $(ONLY))

check: setup build ## format, size, clocks, shell scripts, headers, clang-tidy on changed files
	@tools/check

sanitize: asan tsan ## ASan+UBSan on everything, TSan on link, driver, visit and mesh

asan:
	@$(MAKE) --no-print-directory PRESET=asan test

tsan:
	@$(MAKE) --no-print-directory PRESET=tsan configure
	@cmake --build build/tsan -j $(JOBS) --target $(TSAN_PARTS:%=%/all)
	@set -e; for test in build/tsan/bin/*_test; do \
	  echo "tsan: $$test"; \
	  TSAN_OPTIONS="halt_on_error=1 suppressions=$(CURDIR)/tools/tsan.supp" \
	    $$test --gtest_brief=1; \
	done

clean: ## remove build/
	@rm -rf build
