# Two commands, each enough on its own:  make conformance  and  make test
PYTHON ?= python3
VENV ?= .venv
BIN ?= $(VENV)/bin
.DEFAULT_GOAL := help
# Bytecode is kept even where the environment says otherwise, as container images like to: runs and tests start hundreds of
# Python processes, and without it each compiles some hundreds of modules anew (0.2 s of a lab's start).
export PYTHONDONTWRITEBYTECODE =
.PHONY: help python machine conformance check test report new-claim env suite nftables clean kube-binaries e2e-specs
.PHONY: check-lint check-types check-unit check-selftest check-runs check-conformance check-cluster check-wheel
.PHONY: check-detection check-detection-whole check-detection-gate check-roles check-reliability check-false-alarms
.PHONY: check-oracle check-mutations docs changelog

help:
	@echo 'make conformance   hybrid clusters in a box, and the conformance runs on them'
	@echo 'make check         lint, types and unit tests: minutes, for every commit'
	@echo 'make test          lint, types and the tests of the suite and the lab themselves'
	@echo 'make check-runs    the tests that run the suite on a lab, a job of their own'
	@echo 'make report        the last run as one HTML file (needs Allure 3)'
	@echo 'make new-claim     begin a claim: ID=CONN-8 KIND=reading|host|traffic|policy writes its entry and a test, skipped'
	@echo 'make docs          the tables that are not kept in git: docs/detection.md, docs/modes-table.md'
	@echo 'make suite         only the Python environment of the suite, in $(VENV)'
	@echo 'make env           the same with what its own tests need'
	@echo 'make kube-binaries a real kube-apiserver to hold the lab against (needs Go, 10 minutes)'
	@echo "make e2e-specs     Kubernetes' own policy specs on a lab, as a table (needs Go, 25 minutes)"
	@echo 'make clean         remove what these made'

conformance: machine suite nftables check-conformance

# What to wait for while working: nothing in it starts a lab or another pytest.
check: machine env nftables check-lint check-types check-unit

test: machine env nftables check-lint check-types check-selftest

# The last run's Allure results as one HTML file; needs Allure 3 (npm install allure).
report: suite
	$(BIN)/python -m conformance.report.html

# The first two files of a claim; docs/adding-a-claim.md says what comes then. Needs no environment.
new-claim:
	@$(PYTHON) tools/new_claim.py $(or $(ID),--help) $(if $(AREA),--area '$(AREA)') $(if $(SOURCE),--source '$(SOURCE)') \
	  $(if $(SUITE),--suite '$(SUITE)') $(if $(KIND),--kind '$(KIND)')

# What the tox environments of the same names run too.
check-lint:
	$(BIN)/ruff check lib tests benchmarks suites tools conftest.py
	$(BIN)/ruff format --check lib tests benchmarks suites tools conftest.py

check-types:
	$(BIN)/mypy

# The tables that are generated and kept in git, parts.yaml and kinds.yaml, are compared here too, and each claim's place in
# a gate.
check-unit:
	$(BIN)/pytest tests/unit tests/plugin/test_parts.py tests/detection/test_kinds.py -n auto

# Everything but the tests that run the suite on a lab, which are a job of their own (check-runs).  Twice as many workers as
# there are cores, since tests wait for two thirds of their time.
TWICE = $$((2 * $$(nproc)))
check-selftest:
	$(BIN)/pytest tests -n $(TWICE) --dist loadgroup -m 'not whole_run'

check-runs:
	$(BIN)/pytest tests -n $(TWICE) --dist loadgroup -m whole_run

# The whole suite on the default lab; then what other kinds of cluster do otherwise (to source addresses; with BGP between
# nodes), a run each with a report of its own and one line here (its output where it fails); then whether the first run
# would qualify for every set of claims, which a healthy lab does; and its answer once more, last, whatever it is.  Any of
# them that fails fails it all; where this machine lacks something for the first (exit code 7), the others do not begin.
OTHER_PROFILES = vxlan-1809 eks-no-dsr bgp
WORDS = case $$profile in bgp) words='bgp or snat or different_nodes or node_reaches' ;; *) words=snat ;; esac
ANSWER = -e '/claims fail of that$$/p' -e '/^ *VIOLATED /p' -e '/^ *INCONCLUSIVE /p' -e '/^claims: /,$$p'
SETS = core,policy,vxlan,limitations,provisional
check-conformance:
	@mkdir -p reports; pids=; status=0; trap 'kill $$pids 2>/dev/null' INT TERM; \
	$(BIN)/pytest -n auto || status=$$?; whole=$$status; if [ $$whole = 7 ]; then exit 7; fi; \
	for profile in $(OTHER_PROFILES); do \
	  $(WORDS); \
	  $(BIN)/pytest -k "$$words" --lab-profile=$$profile --report-dir=reports/$$profile -p no:cacheprovider \
	    >reports/$$profile.log 2>&1 </dev/null & pids="$$pids $$!"; \
	done; \
	set -- $$pids; \
	while sleep 10 >/dev/null 2>&1 && kill -0 $$$$ 2>/dev/null; do echo "other labs run: $(OTHER_PROFILES)"; done & ticker=$$!; pids="$$pids $$ticker"; \
	for profile in $(OTHER_PROFILES); do \
	  $(WORDS); ended=0; wait $$1 || ended=$$?; shift; \
	  if [ $$ended != 0 ]; then status=$$ended; cat reports/$$profile.log; fi; \
	  echo "lab $$profile, -k '$$words': $$(sed -n 's/^claims: //p' reports/$$profile.log | tail -n 1); exit code $$ended, reports/$$profile.log"; \
	done; \
	kill $$ticker; \
	if [ $$status = 0 ]; then \
	  $(BIN)/calico-conformance gate reports/latest --require $(SETS) || status=$$?; \
	fi; \
	case $$whole in 0|1|6) \
	  $(BIN)/calico-conformance show reports/latest | sed -n $(ANSWER) | sed 's,conformance.json,report.html,';; \
	esac; \
	exit $$status

# Runs of the suite on labs that are wrong on purpose, and a sample of the wrong-verdict table; `make docs`
# and docs/wrong-verdicts.md say what comes out.  With CLAIM=ID only the rows that run this claim, it alone in each.
DETECTION = $(BIN)/pytest tests/detection -m detection -p no:cacheprovider
ROWS_ALONE = -k test_every_claim_says
check-detection:
	$(DETECTION) $(if $(CLAIM),$(ROWS_ALONE) --detection-claim $(CLAIM))

# Every claim on the lab of each row, hours in all: a claim that changes and that the row does not name fails.
check-detection-whole:
	$(DETECTION) $(ROWS_ALONE) --detection-whole

# What the gate runs: the rows that the change concerns (tests/detection/choice.py), as many as there are LABS and MINUTES
# for; what was left out is printed.  A row that differs is run once more, and both are counted in the last line: its waits
# are as short as the lab allows, so that a busy machine can miss them.
LABS ?= 15
MINUTES ?= 20
check-detection-gate:
	$(DETECTION) $(ROWS_ALONE) --detection-labs $(LABS) --detection-minutes $(MINUTES) --reruns 1

# A wheel of this checkout in an environment of its own, and a run of the suite from another folder.
check-wheel:
	folder=$$(mktemp -d); trap "rm -rf $$folder" EXIT; mkdir $$folder/source $$folder/elsewhere && \
	git ls-files -z | tar c --null -T - | tar x -C $$folder/source && \
	$(PYTHON) -m venv $$folder/venv && $$folder/venv/bin/pip install --quiet "$$folder/source[lab]" && \
	cd $$folder/elsewhere && $$folder/venv/bin/calico-conformance run --claim DEMO-2

# The field guide's commands, whole, under each role of manifests/rbac, on a lab as slow as a real cluster; an hour, most of
# it waiting.  How long each command took is printed.
check-roles:
	$(BIN)/pytest tests/lab/rbac -m slow -n 0 -rP -p no:cacheprovider

# How often healthy labs raise a false alarm, and what killed runs leave behind; docs/reliability.md. Both go on where
# they were interrupted.
RUNS ?= 200
POINTS ?= 50
BLANKET ?= 10
check-reliability:
	$(BIN)/python -m tests.reliability.clean_runs --runs $(RUNS)
	$(BIN)/python -m tests.reliability.kills --points $(POINTS)
	$(BIN)/python -m tests.reliability.kills --points $(BLANKET) --bystander blanket

# The first of the two alone, of the quick suites, which leaves the page as it is.
check-false-alarms:
	$(BIN)/python -m tests.reliability.clean_runs --runs $(RUNS) --no-page --suites suites/connectivity suites/services suites/dns

# The oracle of policies against every probe of the golden tables; `make test` takes every fifth, from one that the commit
# chooses.
check-oracle:
	$(BIN)/pytest tests/unit/conformance/policy/oracle --every-probe -p no:cacheprovider

# What the next version's changelog says so far, from changelog.d.
changelog: env
	@$(BIN)/towncrier build --draft --version next

# Sixty lines of the judge are changed, one at a time, in a copy of the checkout; at most twelve changes may go unnoticed by
# the tests. Which lines follows from the commit. About two hours on two cores: a nightly job.
check-mutations:
	$(BIN)/python -m tools.mutate

# Tables of the detection rows and of the kinds of clusters; too large, and changed too often, to be kept in git.
docs: machine env
	$(BIN)/python -m tests.detection.document
	$(BIN)/python -m tests.detection.kinds

# On the cluster that KUBECONFIG names.
check-cluster:
	$(BIN)/pytest --cluster kubeconfig -n auto

# The environment is made anew whenever pyproject.toml changes: what the suite and the lab need, by the pip that Python brings, then
# what their own checks need beside it, for which pip has to know groups.  pip tells what it fetches, since that takes minutes.
suite: $(VENV)/suite-from-pyproject
env: $(VENV)/made-from-pyproject

$(VENV)/suite-from-pyproject: pyproject.toml | python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --editable '.[lab]'
	@touch $@

$(VENV)/made-from-pyproject: $(VENV)/suite-from-pyproject
	$(BIN)/python -m pip install --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --group lint --group types --group selftest --group changelog
	$(BIN)/python -m pip install --no-deps --group audit
	@touch $@

# All that this machine lacks for a lab is said at once, before anything is downloaded.
machine: python
	@test -e $(VENV)/suite-from-pyproject || PYTHONPATH=lib $(PYTHON) -m hybridlab.cli.machine

python:
	@exec 2>/dev/null; $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Python 3.11 or later is needed; $(PYTHON) is' "$$($(PYTHON) -V || echo not there)"'. Name another: make PYTHON=python3.12'; exit 1; }

# libnftables is the one thing that the lab needs beyond Python packages: the system's, else fetched into $(VENV), without root.
nftables:
	@$(BIN)/hybridlab fetch-nftables

# A folder with kube-apiserver, kube-controller-manager and etcd, built from their own Go modules (about 10 minutes on two
# cores): tests/contract/apiserver runs on a real API server where KUBEBUILDER_ASSETS names such a folder.
KUBEBUILDER_ASSETS ?= $(CURDIR)/.kube-binaries
GO ?= go
KUBE_VERSION = $(shell sed -nE 's|^\s*k8s.io/kubernetes (v[0-9.]+).*|\1|p' tools/kube-binaries/kubernetes/go.mod)
KUBE_VERSION_FLAGS = $(foreach value,gitVersion=$(KUBE_VERSION) gitMajor=1 gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION))) \
	gitTreeState=clean,-X k8s.io/component-base/version.$(value))
kube-binaries: export CGO_ENABLED = 0
kube-binaries:
	mkdir -p $(KUBEBUILDER_ASSETS)
	cd tools/kube-binaries/etcd && $(GO) build -mod=readonly -trimpath -ldflags '-s -w' \
	  -o $(KUBEBUILDER_ASSETS)/etcd go.etcd.io/etcd/server/v3
	cd tools/kube-binaries/kubernetes && $(GO) build -mod=readonly -trimpath -ldflags '-s -w $(KUBE_VERSION_FLAGS)' \
	  -o $(KUBEBUILDER_ASSETS)/ k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager

# Netpol, built from its Go module, with Linux and with Windows pods of a lab; tests/contract/specs says more.
e2e-specs: export CGO_ENABLED = 0
e2e-specs: export GO := $(GO)
e2e-specs: suite nftables
	$(BIN)/python -m tests.contract.specs.run

clean:
	rm -rf $(VENV) .tox .kube-binaries .mypy_cache .ruff_cache .pytest_cache
	find lib tests suites benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
