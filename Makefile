# Two commands, each enough on its own:  make conformance  and  make test
PYTHON ?= python3
VENV ?= .venv
BIN ?= $(VENV)/bin
.DEFAULT_GOAL := help
# Python keeps bytecode even if the environment forbids it, as many container images do: runs and tests start hundreds of
# Python processes, and without bytecode each of them compiles hundreds of modules again (0.2 s of a lab's start).
export PYTHONDONTWRITEBYTECODE =
.PHONY: help python machine conformance check test report new-claim env suite nftables clean kube-binaries e2e-specs
.PHONY: check-lint check-types check-unit check-selftest check-runs check-conformance check-cluster check-wheel
.PHONY: check-kinds check-detection check-detection-whole check-detection-gate check-roles check-reliability check-false-alarms
.PHONY: stories-all full-nodes check-oracle check-three-ways check-public-policies check-planted check-mutations check-powershell check-powershell-lab docs site changelog lock sbom

help:
	@echo 'make conformance   hybrid clusters in a box, and the conformance runs on them'
	@echo 'make check         lint, types and unit tests: minutes, for every commit'
	@echo 'make test          lint, types and the tests of the suite and the lab themselves'
	@echo 'make check-runs    the tests that run the suite on a lab, a job of their own'
	@echo 'make check-powershell  the tests that execute the Windows programs, with the pwsh of the PATH'
	@echo 'make check-powershell-lab  the suite on a lab whose Windows pods run the probe programs by the pwsh of the PATH'
	@echo 'make check-kinds   the suite on a lab of every kind, hours in all, and a table; PROFILES="bgp small" for some of them'
	@echo 'make stories-all   all stories of policies and events on a lab, more than the default run has'
	@echo 'make full-nodes    full blocks and bursts of pods on a lab, which no other run has'
	@echo 'make report        the last run as one HTML file (needs Allure 3)'
	@echo 'make new-claim     begin a claim: ID=CONN-8 KIND=reading|host|traffic|policy writes its entry and a test, skipped'
	@echo 'make site          the documentation as a site with search, reports/site'
	@echo 'make docs          the tables that are not kept in git: docs/detection.md, docs/modes-table.md'
	@echo 'make suite         only the Python environment of the suite, in $(VENV)'
	@echo 'make env           the same with what its own tests need'
	@echo 'make kube-binaries a real kube-apiserver to hold the lab against (needs Go, 10 minutes)'
	@echo "make e2e-specs     Kubernetes' own policy specs on a lab, as a table (needs Go, 25 minutes)"
	@echo 'make lock          the pinned packages again, after a change of pyproject.toml; UPGRADE=--upgrade for newer ones'
	@echo "make sbom          the suite's packages in CycloneDX's format, reports/sbom.json"
	@echo 'make clean         remove what these made'

conformance: machine suite nftables check-conformance

# The checks for every commit: none of them starts a lab or another pytest.
check: machine env nftables check-lint check-types check-unit

test: machine env nftables check-lint check-types check-selftest

# The last run's Allure results as one HTML file; needs Allure 3 (npm install allure).
report: suite
	$(BIN)/python -m conformance.report.html

# Write the first two files of a claim; docs/adding-a-claim.md describes the next steps. Needs no environment.
new-claim:
	@$(PYTHON) tools/new_claim.py $(or $(ID),--help) $(if $(AREA),--area '$(AREA)') $(if $(SOURCE),--source '$(SOURCE)') \
	  $(if $(SUITE),--suite '$(SUITE)') $(if $(KIND),--kind '$(KIND)')

# The tox environments of the same names run these targets, too.
check-lint:
	$(BIN)/ruff check lib tests benchmarks suites tools conftest.py
	$(BIN)/ruff format --check lib tests benchmarks suites tools conftest.py

check-types:
	$(BIN)/mypy

# Includes the comparison of the generated tables that git keeps (parts.yaml and kinds.yaml), and of each claim's place in a
# gate.
check-unit:
	$(BIN)/pytest tests/unit tests/plugin/test_parts.py tests/detection/test_kinds.py -n auto

# All tests except those that run the suite on a lab (check-runs) and those that execute PowerShell (check-powershell). There
# are two workers for each core, since tests spend two thirds of their time waiting.
TWICE = $$((2 * $$(nproc)))
# If at most three tests fail, and none of them is a unit test, these run a second time, alone; the end names them.
ONCE_MORE = $(BIN)/python -m tools.once_more
check-selftest:
	$(ONCE_MORE) tests -n $(TWICE) --dist loadgroup -m 'not whole_run and not powershell'

check-runs:
	$(ONCE_MORE) tests -n $(TWICE) --dist loadgroup -m whole_run

# Every test that executes PowerShell. First the probe programs of Windows pods and the programs for Windows hosts, with one
# worker more than cores, since some of these tests wait. Then, if this machine can run a lab, the probe programs inside labs,
# and a sample of the suite on a lab. The start of a PowerShell takes two seconds of a core. .NET's profiling of compiled code
# costs a quarter of that. It is off, since no program here runs for long enough to gain by it.
INSIDE = tests/lab/runtime/test_real_powershell.py tests/lab/lifecycle/test_powershell_ends.py
IN_THE_LAB = $(BIN)/pytest --lab-powershell=pwsh -p no:cacheprovider --report-dir=reports/powershell
SAMPLE = suites/resets/test_policy_update.py suites/connectivity/test_pod_to_pod.py suites/dns/test_records.py \
  suites/connectivity/test_source_address.py
check-powershell: export DOTNET_TieredPGO = 0
check-powershell:
	@command -v pwsh >/dev/null || { echo 'make check-powershell: no pwsh on the PATH; PowerShell 7 for Linux is' \
	  'one folder to unpack (https://aka.ms/powershell-release?tag=stable), or: dotnet tool install --global PowerShell' >&2; exit 7; }
	$(ONCE_MORE) tests/contract -n $$(($$(nproc) + 1)) --dist loadgroup -m powershell
	@if ! $(BIN)/python -m hybridlab.cli.machine; then echo 'make check-powershell: what runs inside a lab was LEFT OUT' >&2; exit 0; fi; \
	set -ex; $(BIN)/hybridlab fetch-nftables; $(ONCE_MORE) $(INSIDE) -n $$(nproc) --dist loadgroup -m powershell; \
	$(IN_THE_LAB) $(SAMPLE) -n 1

# Runs the whole suite on a lab with PowerShell in its Windows pods: up to 46 minutes on two otherwise idle cores.
check-powershell-lab: machine env nftables
	$(IN_THE_LAB) -n 2

# 1. Run the whole suite on the default lab. If this machine lacks something that a lab needs (exit code 7), end here.
# 2. On each other profile, run the claims whose results differ there: source addresses, BGP between nodes, other CNI
#    plugins. Each run has a report of its own and prints one line, or all its output if it fails.
# 3. Check by the gate that the first run would qualify for every set of claims, as a healthy lab does.
# 4. Print the result of the first run again, whatever it is.
# If a run or the gate fails, the target fails.
OTHER_PROFILES = vxlan-1809 eks-no-dsr bgp aks-operator static-routes
WORDS = case $$profile in bgp) words='bgp or snat or different_nodes or node_reaches' ;; \
  aks-operator) words='CP-1 or AKS-2 or CONN-3 or CONN-4 or NAT-1 or SVC-2 or XSVC-5 or XPOL-23' ;; \
  static-routes) words='CP-1 or CP-2 or CONN-3 or CONN-4 or NAT-1 or XSVC-5 or XPOL-23' ;; *) words=snat ;; esac
ANSWER = -e '/claims fail for this cause$$/p' -e '/^ *VIOLATED /p' -e '/^ *INCONCLUSIVE /p' -e '/^claims: /,$$p'
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

# Runs the whole suite on a lab of every profile, one after the other, each with a report and an output file below
# reports/kinds, and prints a table at the end. A profile takes about 5 minutes on two otherwise idle cores.
check-kinds: machine env nftables
	$(BIN)/python -m tools.check_kinds $(PROFILES)

# Runs the suite on labs that are wrong on purpose, and checks a sample of the wrong-verdict table. `make docs` and
# docs/wrong-verdicts.md have the results. With CLAIM=ID, only the rows with this claim run, and they test this claim alone.
DETECTION = $(BIN)/pytest tests/detection -m detection -p no:cacheprovider $(if $(POWERSHELL),--detection-powershell $(POWERSHELL))
ROWS_ALONE = -k test_every_claim_says
check-detection:
	$(DETECTION) $(if $(CLAIM),$(ROWS_ALONE) --detection-claim $(CLAIM))

# Tests every claim on the lab of each row, which takes hours. Fails if a verdict changes and the row does not name its claim.
check-detection-whole:
	$(DETECTION) $(ROWS_ALONE) --detection-whole

# Runs the gate's rows: those that the change concerns (tests/detection/choice.py), within LABS and MINUTES; the rows that are
# left out are printed. A row with an unexpected verdict runs a second time, and the last line counts both runs: rows wait as
# briefly as the lab allows, so a busy machine can miss their waits.
LABS ?= 15
MINUTES ?= 20
check-detection-gate:
	$(DETECTION) $(ROWS_ALONE) --detection-labs $(LABS) --detection-minutes $(MINUTES) --reruns 1

# Installs a wheel of this checkout in an environment of its own, and runs the suite from another folder.
check-wheel:
	folder=$$(mktemp -d); trap "rm -rf $$folder" EXIT; mkdir $$folder/source $$folder/elsewhere && \
	git ls-files -z | tar c --null -T - | tar x -C $$folder/source && \
	$(PYTHON) -m venv $$folder/venv && $$folder/venv/bin/python $(LOCKED) requirements.lock --quiet && \
	$$folder/venv/bin/python $(INSTALL) --no-build-isolation --quiet $$folder/source && \
	$$folder/venv/bin/hybridlab fetch-nftables && \
	cd $$folder/elsewhere && $$folder/venv/bin/calico-conformance run --claim DEMO-2

# Runs all commands of the field guide, under each role of manifests/rbac, on a lab that is as slow as a real cluster. Prints
# how long each command took. Takes an hour, mostly waiting.
check-roles:
	$(BIN)/pytest tests/lab/rbac -m slow -n 0 -rP -p no:cacheprovider

# Counts false alarms on healthy labs, and what killed runs leave behind (docs/reliability.md). Both counts continue where they
# were interrupted.
RUNS ?= 200
POINTS ?= 50
BLANKET ?= 10
check-reliability:
	$(BIN)/python -m tests.reliability.clean_runs --runs $(RUNS)
	$(BIN)/python -m tests.reliability.kills --points $(POINTS)
	$(BIN)/python -m tests.reliability.kills --points $(BLANKET) --bystander blanket

# Counts false alarms alone, with the quick suites; docs/reliability.md stays as it is.
check-false-alarms:
	$(BIN)/python -m tests.reliability.clean_runs --runs $(RUNS) --no-page --suites suites/connectivity suites/services suites/dns

# Tests full nodes, a full pool and bursts of pods, on a lab whose kubelets take more pods than blocks have addresses. Decides
# IPAM-2, IPAM-4, IPAM-7, IPAM-9, IPAM-13, XLC-4, XSVC-10 and XSVC-11, which no other run decides.
full-nodes: machine suite nftables
	$(BIN)/pytest --allow-node-fill --claim IPAM-2 --claim IPAM-4 --claim IPAM-7 --claim IPAM-9 --claim IPAM-13 \
	  --claim XLC-4 --claim XSVC-11 --allow-load-balancer --claim XSVC-10 \
	  --lab-profile=full-nodes --report-dir=reports/full-nodes -p no:cacheprovider -n 0

# Runs all committed stories on a lab. The default run has only those of suites/policy/stories (docs/stories.md). A nightly job.
stories-all:
	$(BIN)/pytest suites/policy/test_stories.py --story=suites/policy/stories/all -p no:cacheprovider
	$(BIN)/pytest suites/policy/test_stories.py -p no:cacheprovider

# Compares the oracle of policies with every probe of the golden tables. `make test` takes every fifth probe; the commit
# determines the first.
check-oracle:
	$(BIN)/pytest tests/unit/conformance/policy/oracle --every-probe -p no:cacheprovider

# Compares Calico's own policy code, the lab and the oracle on all cases of the second set of tables: verdicts, panics and
# ACL lists.
check-three-ways:
	$(BIN)/python -m tests.golden.three_ways

# Runs `calico-conformance policy` on published policies, fetched from their repositories at named commits.
check-public-policies:
	$(BIN)/python -m tests.golden.public_policies

# Tries misreadings of policy that were not used to choose the worlds. Fails if the worlds show fewer than four in five.
check-planted:
	$(BIN)/python -m tests.worlds.planted

# Prints the changelog of the next version so far, from changelog.d.
changelog: env
	@$(BIN)/towncrier build --draft --version next

# Changes sixty lines of the judge, one at a time, in a copy of the checkout; the tests may miss at most twelve changes. The
# commit determines the lines. Takes about two hours on two cores: a nightly job.
check-mutations:
	$(BIN)/python -m tools.mutate

# Writes the tables of the detection rows and of the kinds of clusters, which are too large and change too often for git.
docs: machine env
	$(BIN)/python -m tests.detection.document
	$(BIN)/python -m tests.detection.kinds

# Runs the suite on the cluster that KUBECONFIG names.
check-cluster:
	$(BIN)/pytest --cluster kubeconfig -n auto

# The environment is updated whenever the requirements change. It has exactly the packages of requirements.lock, each checked
# against its hash, and the suite itself; `env` adds the packages that the suite's own checks need. Packages that neither lock
# names are removed. pip prints its downloads, since they take minutes.
INSTALL = -m pip install --no-deps
LOCKED = $(INSTALL) --require-hashes --requirement
PRUNE = $(BIN)/python -I tools/prune_environment.py
suite: $(VENV)/suite-from-lock
env: $(VENV)/env-from-lock

$(VENV)/suite-from-lock: requirements.lock pyproject.toml | python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(LOCKED) requirements.lock
	$(PRUNE) requirements.lock $(if $(wildcard $(VENV)/env-from-lock),requirements-dev.lock)
	$(BIN)/python $(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/env-from-lock: requirements-dev.lock $(VENV)/suite-from-lock
	$(BIN)/python $(LOCKED) requirements-dev.lock --no-build-isolation
	$(PRUNE) requirements.lock requirements-dev.lock
	@touch $@

# Pins the packages for every platform, and for Python from 3.11 on. Pins that still fit pyproject.toml stay as they are,
# unless UPGRADE=--upgrade asks for the newest releases. The suite gets the versions with which the checks were run.
RELEASE = $(VENV)/release
COMPILE = $(RELEASE)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock' $(UPGRADE)
DEV_GROUPS = lint types selftest changelog audit install
lock: $(RELEASE)/made-from-lock
	$(COMPILE) pyproject.toml --extra lab $(DEV_GROUPS:%=--group %) --output-file requirements-dev.lock
	$(COMPILE) pyproject.toml --extra lab --group install --constraints requirements-dev.lock --output-file requirements.lock
	$(COMPILE) pyproject.toml --constraints requirements-dev.lock --output-file requirements-image.lock
	$(COMPILE) --group pyproject.toml:release --output-file requirements-release.lock
	$(COMPILE) --group pyproject.toml:docs --output-file requirements-docs.lock

$(RELEASE)/made-from-lock: requirements-release.lock | python
	$(PYTHON) -m venv --clear $(RELEASE)
	$(RELEASE)/bin/python $(LOCKED) requirements-release.lock
	@touch $@

# Builds a searchable website from docs/, in an environment of its own, since nothing else needs that environment's packages.
SITE ?= reports/site
site: $(VENV)/docs/made-from-lock
	$(VENV)/docs/bin/python -m sphinx --fail-on-warning --keep-going --quiet -b html -c tools/site docs $(SITE)
	@echo "$(SITE)/index.html"

$(VENV)/docs/made-from-lock: requirements-docs.lock | python
	$(PYTHON) -m venv --clear $(VENV)/docs
	$(VENV)/docs/bin/python $(LOCKED) requirements-docs.lock --quiet
	@touch $@

# Lists the packages of the suite's environment in CycloneDX's format, for scanners and for people who approve software.
SBOM ?= reports/sbom.json
sbom: $(RELEASE)/made-from-lock
	@mkdir -p $(dir $(SBOM))
	$(RELEASE)/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible \
	  --output-file $(SBOM)

# Names everything that this machine lacks for a lab, before anything is downloaded.
machine: python
	@test -e $(VENV)/suite-from-lock || PYTHONPATH=lib $(PYTHON) -m hybridlab.cli.machine

python:
	@exec 2>/dev/null; $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Python 3.11 or later is needed; $(PYTHON) is' "$$($(PYTHON) -V || echo not there)"'. Name another: make PYTHON=python3.12'; exit 1; }

# Apart from Python packages, the lab needs only libnftables: the system's, or else a copy that is fetched into $(VENV)
# without root.
nftables:
	@$(BIN)/hybridlab fetch-nftables

# Builds kube-apiserver, kube-controller-manager and etcd from their own Go modules into a folder (about 10 minutes on two
# cores). If KUBEBUILDER_ASSETS names such a folder, tests/contract/apiserver runs on a real API server.
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

# Runs Kubernetes' Netpol specs, built from their Go module, with Linux and with Windows pods of a lab (tests/contract/specs).
e2e-specs: export CGO_ENABLED = 0
e2e-specs: export GO := $(GO)
e2e-specs: suite nftables
	$(BIN)/python -m tests.contract.specs.run

clean:
	rm -rf $(VENV) .tox .kube-binaries .mypy_cache .ruff_cache .pytest_cache
	find lib tests suites benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
