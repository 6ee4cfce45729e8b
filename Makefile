# `make demo` and `make test` do all the set-up they need on a fresh Debian machine with Rust.

CARGO ?= cargo
# Tests wait for other processes and for time limits much of the time.
THREADS ?= $(shell echo $$(( $$(nproc) * 3 )))

# CI builds once, so it has no use for what makes the next build faster.
ifdef CI
export CARGO_INCREMENTAL = 0
endif

.PHONY: help demo build static static-test test check lint unit soak bench picture screenshots upgrade-test agents-test vm

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# holm embeds the small program of its keepers and inits, which is built first, with the same flags, and the page of the
# dashboard.
roles = HOLM_PAGE="$$(scripts/page)" && HOLM_ROLES_PROGRAM="$$(scripts/roles $(1))" && export HOLM_PAGE HOLM_ROLES_PROGRAM &&

demo: ## two agents' workspaces of examples/shop: four services each, the same ports, two databases
	@scripts/set-up demo
	$(call roles,build --profile demo) $(CARGO) build --profile demo --locked -p holm
	@scripts/demo

picture: ## the terminal of the README, docs/holm.svg, from a real run (needs tmux; not as root)
	$(call roles,build --profile demo) $(CARGO) build --profile demo --locked -p holm
	@scripts/picture "$${CARGO_TARGET_DIR:-target}/demo/holm"

screenshots: PROFILE ?= demo
screenshots: ## the dashboard's pages in target/screenshots, and the two of the README, from real workspaces (needs Chromium; PROFILE=dev builds faster)
	@scripts/set-up screenshots
	$(call roles,build --profile $(PROFILE)) $(CARGO) build --profile $(PROFILE) --locked -p holm
	@scripts/in-own-network scripts/screenshots "$(BUILT)/$(PROFILE:dev=debug)/holm"

# The target is named, so that build scripts and macros stay dynamic.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
BUILT = $${CARGO_TARGET_DIR:-target}

build static static-test: export RUSTFLAGS = -C target-feature=+crt-static

build: ## holm itself, optimised and without shared libraries: one file, which can be copied anywhere
	@scripts/set-up build
	$(call roles,build --release --target $(HOST)) $(CARGO) build --release --locked -p holm --target $(HOST)
	@mkdir -p "$(BUILT)/release" && cp --remove-destination "$(BUILT)/$(HOST)/release/holm" "$(BUILT)/release/holm"

static: build ## checks that it runs in an empty directory and as the first process of any image
	@scripts/check-static "$(BUILT)/release/holm"

static-test: ## every test with a static program; takes as long as `make test`
	@scripts/set-up test
	$(call roles,test --target $(HOST)) \
	$(CARGO) build --locked -p holm --target $(HOST) && \
	scripts/check-static "$(BUILT)/$(HOST)/debug/holm" && \
	$(CARGO) nextest run --workspace --locked --target $(HOST) --no-run && \
	scripts/unit --workspace --target $(HOST) --test-threads $(THREADS)

test: ## install what tests need, then everything that CI runs
	@scripts/set-up test
	@$(MAKE) --no-print-directory check

check: lint unit ## what CI checks, without installing anything

lint: ## format, warnings, dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@scripts/deny

unit: ## every test, in a network of its own; lists the tests that this machine cannot run
	$(call roles,test) \
	$(CARGO) nextest run --workspace --locked --no-run && \
	scripts/unit --workspace --test-threads $(THREADS)
	$(CARGO) test --doc -p holm-core --locked --offline

soak: ## ten thousand creations and removals, and many random runs; takes an hour or two
	@scripts/set-up test
	@scripts/in-own-network scripts/soak

bench: build ## speed, beside its peers, in one run; some of it: BENCH="exec previews"
	@scripts/set-up bench
	@scripts/in-own-network scripts/bench $(BENCH)

upgrade-test: ## workspaces of the release before, through an upgrade; builds that release, which takes minutes
	@scripts/upgrade

agents-test: ## the real agents, with a stand-in for their APIs on this machine; installs them, takes minutes
	@scripts/set-up test
	@scripts/set-up agents
	$(call roles,test) scripts/unit --workspace --ignore-default-filter -E 'test(/^agents_real::/)'

vm: ## limits on a kernel with every controller of cgroup v2, in an emulated machine; takes minutes
	@scripts/set-up vm
	$(CARGO) build --locked -p holm
	@scripts/vm
	@[ -n "$$VM_TESTS" ] || VM_TESTS=vm_only:: scripts/vm
