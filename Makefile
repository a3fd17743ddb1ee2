# Names for the longer runs. Nothing needs this file: ./test.sh and .ci/run do without it.
.DEFAULT_GOAL := help
.PHONY: help bench bench-postgres soak endurance metamorphic fuzz sim

DURATION ?= 10m
FUZZ ?= 100000x
KILLS ?= 1000
ROWS ?= 10000

help: ## list the runs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/'

bench: ## every benchmark, long enough to compare, the stores also with a million stored operations
	EFFECTONCE_BENCH_ROWS=10000,1000000 go test -run '^$$' -bench . -benchtime 3s -count 3 -p 1 -timeout 0 ./...

bench-postgres: ## claim and record on PostgreSQL against pgbench with the same statements, and with a purge beside them (ROWS=10000,1000000 for more rows)
	EFFECTONCE_BENCH_ROWS=$(ROWS) go test ./store/postgres -run '^$$' -bench 'ClaimRecord|PurgeUnderLoad' -benchtime 3x -timeout 0

sim: ## the simulator on a seed of its own, for DURATION
	go test ./fault/sim -run TestSimulator -count 1 -timeout 0 -sim.duration $(DURATION) -sim.seed $$(date +%s) -v

fuzz: ## each fuzz target for FUZZ inputs (or a time)
	.ci/fuzz $(FUZZ)

metamorphic: ## random workloads on every store, for DURATION, from a seed of its own
	go test ./fault/metamorphic -run TestEveryStore -count 1 -timeout 0 -metamorphic.duration $(DURATION) -metamorphic.seed $$(date +%s) -v

soak: ## KILLS of daemons under load on each store, and what is left compared with the provider's ledger (a second and a half each)
	EFFECTONCE_SOAK=$(KILLS) go test ./fault/soak -count 1 -timeout 0 -v

endurance: ## soak, simulator, workloads, fuzz targets, and the tests under the race detector, again and again, for hours
	$(MAKE) soak
	$(MAKE) sim DURATION=20m
	$(MAKE) metamorphic DURATION=10m
	$(MAKE) fuzz FUZZ=100000x
	go test -race -count 5 -p 1 -timeout 0 ./...
