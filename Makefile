# The ways to build, run and check Troupe. `make help` lists them.
#
# `make run` and `make test` start from a machine with Go, git and make: tools/need installs the rest where it may, and
# says what to install where it may not.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

GO ?= go
SEED ?= 1
# Seconds for each fuzz target.
FUZZ ?= 1

BIN := bin/troupe
BUF := bin/tools/buf
LINT := bin/tools/golangci-lint
TOOLS_MOD := tools/go.mod

# These packages drive the built binary and real processes, or measure: the race detector would watch the test and not
# the node, at several times the cost. Everything else but the plain ones below runs under it.
REAL := /test/(e2e|chaos|bench|browser)(/|$$$$)

# The decisions start no goroutines, which test/arch checks; the other two only read files.
PLAIN := /rules/|/test/(arch|record)$$$$

# SQLite itself is C translated to Go, and each connection belongs to one goroutine at a time: the detector watches the code
# that hands connections over, and not the library's inside, which made the embedded store's tests take three times as long.
#
# The library that carries messages between nodes sets gRPC's log each time that it starts, unguarded; that log goes nowhere.
# Left to the race detector, tests that start it twice in one process would fail for it; without this flag they are skipped,
# and with TROUPE_TEST_UNSKIPPED they fail instead. A test binary knows the last -gcflags alone, so this one stands last.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false \
	-gcflags=google.golang.org/grpc/grpclog/...=-race=false

# Most tests wait: for a process, a server, or a bound that is part of what they test. So two packages run at a time, and two tests in
# each; one package where nodes are processes of their own with a load of executions, or a browser looks. More than these keep two
# cores of a slow machine so busy that nodes miss their bounds, and save little time there; a machine with more cores may take more.
# The longest packages come first, so that the others run beside them and none is left for the end. How many tests use the shared
# Postgres at a time, the packages bound themselves: a server takes 100 connections, a node up to ten.
PACKAGES ?= 2
PARALLEL ?= 2
PACKAGES_REAL ?= 1
PARALLEL_REAL ?= 2
LONGEST := ./node ./store/sqlite ./store/postgres ./broker/rabbitmq ./actors ./api ./process/... ./supervisor
LONGEST_REAL := ./test/chaos ./test/browser ./test/e2e

# Shows what go test alone would show, and then the slowest packages and tests. TIMES="-strict" fails where a package takes longer
# than 20 s without a reason in its doc.
TIMES ?=
SHOW_TIMES = $(GO) -C tools run ./times $(TIMES)

# Flags for make bench: go run ./test/record -help.
BENCH ?=

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: need-run build ## Build troupe and start a node on its embedded store and broker.
	exec $(BIN) node

.PHONY: cluster
cluster: need-cluster build ## Run three nodes, kill one while they work, and show what happens; until Ctrl-C.
	exec tools/cluster

.PHONY: build
build: need-go ## Build bin/troupe.
	@[ -e $(BIN) ] || echo "building $(BIN): the first time takes minutes; each package is named as it is compiled"
	$(GO) build -v -o $(BIN) ./cmd/troupe

.PHONY: release
release: need-go ## Build bin/troupe to be passed on: without symbols, and without the paths of this machine.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o $(BIN) ./cmd/troupe

# These packages have tests of which most need servers or networks of their own.
SLOW := $(REAL)|troupe/(node|store/postgres|pgtx|broker/rabbitmq|test/(servers|netns))$$$$

# -short leaves out what repeats a suite with other settings or in another language.
LONGEST_FAST := ./process/check ./store/sqlite ./supervisor ./process ./peers

.PHONY: fast
fast: need-go ## Run the tests of a minute: those that need no server and repeat no suite, without the race detector.
	@tools/need python3 node
	$(PYTHON) $(GO) test $(LEAN) -short -json -p 4 -parallel 6 \
		$(LONGEST_FAST) $$($(GO) list ./... | grep -vE '$(SLOW)') | $(SHOW_TIMES)

.PHONY: test
test: test-race test-real fuzz ## Run every test, most of them under the race detector, and every fuzz target for a moment.

# Without debug information tests are linked in two thirds of the time, and a failure still names its lines. make verify vets.
LEAN := -ldflags='-s -w' -vet=off

# Tests start thousands of Python processes. Where python3 is the script of a version manager, that takes longer than Python itself.
PYTHON := PATH="$$(dirname "$$(python3 -c 'import sys; print(sys.executable)')"):$$PATH"

# Runs what follows beside a RabbitMQ of its own: one that has served many runs of the tests may fail them.
OWN := $(GO) run ./test/servers/own

# Everything is compiled before the first test, which would otherwise share the cores with the compiler.
.PHONY: test-race
test-race: need-test build
	$(GO) build $(RACE) ./...
	$(PYTHON) TROUPE_TEST_UNSKIPPED=1 $(OWN) $(GO) test $(RACE) $(LEAN) -json -p $(PACKAGES) -parallel $(PARALLEL) -timeout 25m \
		$(LONGEST) $$($(GO) list ./... | grep -vE '$(REAL)|$(PLAIN)') | $(SHOW_TIMES)

# -count=1: what these tests build and start is no part of them for the cache of results.
.PHONY: test-real
test-real: need-test
	$(PYTHON) $(OWN) $(GO) test $(LEAN) -count=1 -json -p $(PACKAGES_REAL) -parallel $(PARALLEL_REAL) -timeout 60m \
		$(LONGEST_REAL) $$($(GO) list ./... | grep -E '$(REAL)|$(PLAIN)') | $(SHOW_TIMES)

.PHONY: fuzz
fuzz: need-go ## Run every fuzz target; FUZZ=60 gives each a minute.
	@tools/fuzz $(FUZZ)

.PHONY: chaos
chaos: need-test ## Run the chaos suite whole, some two hours; SEED=7 picks the history.
	TROUPE_CHAOS=whole $(GO) test ./test/chaos -count=1 -timeout 200m -v -run TestWhole -seed=$(SEED)
	TROUPE_CHAOS=whole $(GO) test ./store/postgres ./store/sqlite ./test/browser -count=1 -timeout 30m -v -p 1 -run 'TestWhole|TestOneCallOfManyLargeResults'

.PHONY: bench
bench: need-test ## Measure, write docs/benchmarks.json and render docs/benchmarks.md; BENCH="-only Full/Bulk" for some of it.
	$(GO) run ./test/record $(BENCH)

.PHONY: verify
verify: check-fmt vet lint proto check-tidy arch ## Check format, vet, lint, the wire contract, generated code, tidiness and architecture.
	@echo "verify: all checks passed"

.PHONY: check-deploy
check-deploy: need-go ## Check deploy/ with systemd-analyze and kube-score; fetches the latter.
	@tools/need systemd-analyze
	tools/check-deploy

.PHONY: notices
notices: need-go ## Write the licences of everything in the binary to bin/NOTICES.txt.
	@mkdir -p bin
	tools/notices > bin/NOTICES.txt

.PHONY: sbom
sbom: need-go ## Write what the binary is made of to bin/troupe.cdx.json (CycloneDX); fetches the tool.
	@mkdir -p bin
	$(GO) run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 app -json -licenses -std -main cmd/troupe -output bin/troupe.cdx.json .

# Only whoever changes the console needs npm: dist/ is committed.
NPM := cd web && npm

.PHONY: web
web: ## Check the console and build it: web/src to web/dist.
	@tools/need node npm
	$(NPM) ci
	$(NPM) run check
	$(NPM) run build
	cp web/node_modules/axe-core/axe.min.js test/browser/testdata/

.PHONY: check-web
check-web: web ## Check that web/dist is what web/src builds.
	@[ -z "$$(git status --porcelain web/dist test/browser/testdata)" ] || { git status --short web/dist test/browser/testdata; echo "web/dist is not what web/src builds: commit it" >&2; exit 1; }

.PHONY: screenshots
screenshots: need-test ## Take a picture of each page of the console that the tests look at, into bin/screenshots.
	$(GO) test -count=1 ./test/browser -screenshots $(CURDIR)/bin/screenshots

.PHONY: fmt
fmt: need-go ## Format the code and the proto files.
	gofmt -w .
	$(MAKE) $(BUF)
	$(BUF) format -w

.PHONY: check-fmt
check-fmt: need-go
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then \
		printf '%s\n' "not formatted, run \`make fmt\`:" $$files >&2; exit 1; fi

.PHONY: vet
vet: need-go
	$(GO) vet ./...

.PHONY: lint
lint: $(LINT) ## Run the linters of .golangci.yml.
	$(LINT) run ./...

.PHONY: generate
generate: $(BUF) ## Write what is made from code: the wire contract's Go code, the tables and pages in docs/, alerts and dashboards.
	$(BUF) generate
	$(GO) test -count=1 ./rules/lifecycle -run TestPageIsRendered -update
	$(GO) test -count=1 ./node -run TestOperationsPageHasEveryMetric -update
	$(GO) test -count=1 ./cmd/troupe ./cmd/troupe/config ./rules/health ./rules/alerts ./rules/dashboards -update
	$(GO) test -count=1 ./store/postgres -run TestTheSchemaPageIsCurrent -update
	$(GO) test -count=1 ./test/record -update

.PHONY: baseline
baseline: $(BUF) ## Take today's wire contract as the one that later ones must not break; done with a release.
	$(BUF) build --exclude-source-info -o proto/baseline.txtpb

# The contract is compared with a checked-in baseline and not with a branch: a shallow clone has no other commit, and
# the working tree always agrees with its own.
.PHONY: proto
proto: $(BUF)
	$(BUF) format --exit-code --diff
	$(BUF) lint
	$(BUF) breaking --against proto/baseline.txtpb
	tools/check-generated $(BUF)

.PHONY: check-tidy
check-tidy: need-go
	$(GO) mod tidy -diff
	$(GO) -C tools mod tidy -diff
	$(GO) -C test/bench/river mod tidy -diff
	$(GO) -C test/bench/asynq mod tidy -diff

.PHONY: arch
arch: need-go
	$(GO) test -count=1 ./test/arch

$(BUF): tools/go.mod tools/go.sum
	$(GO) build -modfile=$(TOOLS_MOD) -o $@ github.com/bufbuild/buf/cmd/buf

$(LINT): tools/go.mod tools/go.sum
	@echo "building golangci-lint, once; this takes a few minutes on two cores"
	$(GO) build -modfile=$(TOOLS_MOD) -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: need-go need-run need-cluster need-test
need-go:
	@tools/need go
# A node starts without Python and Node.js; only actions written in them need them.
need-run: need-go
	@tools/need --warn python3 node
need-cluster: need-run
	@tools/need --served postgres rabbitmq
need-test: need-go
	@tools/need cc python3 node ps ip promtool prometheus postgres rabbitmq chromium
