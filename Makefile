# Makefile - builds, tests and checks the house. `make help` lists what it can do.
#
# Sources are found, not listed: a new file in server/, proto/ or tests/ needs no edit here.
# Each variant has its own folder: build/ (what ships), build/san (sanitizers), build/clang,
# build/pure (the core alone, for the linker to judge), build/fuzz and build/cover (the fuzz programs, with what they
# reach). Asserts stay on in all.
# SPDX-License-Identifier: Apache-2.0

VARIANT ?= release
SEED    ?= 1
N       ?= 1
SEEDS   ?= 300
FUZZ_SECONDS ?= 10

MAKEFLAGS += --no-print-directory --no-builtin-rules
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all
AGAIN = +@$(MAKE)

# All processors, but one goal after the other.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
ifneq ($(word 2,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

# What runs is said in a word and a name; `make V=1` shows the whole command, `make -s` nothing.
Q := $(if $(V),,@)
SAYING := $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),,yes)
say = $(if $(SAYING),@echo "  $(1)")

# --- Flags -------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes \
    -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wswitch-enum -Wvla -Wundef -Wformat=2 \
    -Wdouble-promotion -Wnull-dereference -Werror
# Of processors of Intel and AMD, and of Arm, which have a form of it each.
CONTROL_FLOW = $(eval CONTROL_FLOW := $$(if $$(findstring x86_64,$$(shell $(CC) -dumpmachine)),-fcf-protection=full,-mbranch-protection=standard))$(CONTROL_FLOW)
HARDENING = -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection $(CONTROL_FLOW) \
    -ftrivial-auto-var-init=zero
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

CC := gcc
OPTIMIZE := -O2 -g
B := build

# Half of the time of a build goes into some 300 test programs: these are compiled without optimization, and linked by
# gold where it is installed.
ifeq ($(VARIANT),release)
TEST_OPTIMIZE := -O0 -g
TEST_HARDENING :=
# Without optimization gcc does not know how long a string is at most.
TEST_FLOOR := -Wno-format-truncation
TEST_LINKER := $(if $(shell command -v ld.gold),-fuse-ld=gold)
else
TEST_OPTIMIZE = $(OPTIMIZE)
TEST_HARDENING = $(HARDENING)
endif

ifeq ($(VARIANT),san)
B := build/san
# The warnings of gcc were heard in the release build; with sanitizers it guesses.
OPTIMIZE := -O1 -g $(SANITIZERS)
WARNINGS := $(filter-out -Werror,$(WARNINGS))
HARDENING :=
LINK_EXTRA := $(SANITIZERS)
SEEDS := 200
endif
ifeq ($(VARIANT),clang)
B := build/clang
CC := clang
OPTIMIZE := -O0
HARDENING :=
endif
ifeq ($(VARIANT),pure)
B := build/pure
OPTIMIZE := -O1 -fanalyzer
HARDENING := -fno-stack-protector -U_FORTIFY_SOURCE
endif
ifeq ($(VARIANT),fuzz)
B := build/fuzz
CC := clang
OPTIMIZE := -O1 -g $(SANITIZERS) -fsanitize=fuzzer-no-link
HARDENING :=
LINK_EXTRA := $(SANITIZERS) -fsanitize=fuzzer
endif

ifeq ($(VARIANT),cover)
B := build/cover
CC := clang
OPTIMIZE := -O1 -g -fprofile-instr-generate -fcoverage-mapping
HARDENING :=
LINK_EXTRA := -fprofile-instr-generate -fsanitize=fuzzer
endif

# What is released: one static program for each architecture, which needs nothing of the host. Debian's libraries are
# unpacked for it into a folder of their own (deploy/release/sysroot).
ifneq ($(filter static-%,$(VARIANT)),)
B := build/$(VARIANT)
SYSROOT := $(shell deploy/release/sysroot $(VARIANT:static-%=%))
$(if $(SYSROOT),,$(error no libraries for $(VARIANT): see above))
TRIPLET := $(if $(filter static-arm64,$(VARIANT)),aarch64,x86_64)-linux-gnu
CC := $(TRIPLET)-gcc --sysroot=$(SYSROOT)
# Paths of this machine are no part of what is released.
OPTIMIZE := -O2 -ffile-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(SYSROOT)=.
# The test programs of this variant run by qemu-user: compiled as in VARIANT=release, stripped, because each is static.
TEST_OPTIMIZE := -O0
TEST_HARDENING :=
TEST_FLOOR := -Wno-format-truncation
TEST_LINKER := -s
PKG_CONFIG := PKG_CONFIG_SYSROOT_DIR=$(SYSROOT) PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(TRIPLET)/pkgconfig pkg-config --static
endif
PKG_CONFIG ?= pkg-config
# What must be installed to compile.
TOOLS := deps-$(if $(SYSROOT),$(VARIANT),build)

# Expanded when first used, so that `deps` has had its chance to install what is asked here.
LIBRARIES := libmicrohttpd libprotobuf-c libcurl libcrypto libssl jansson libnghttp2 sqlite3 zlib
LIB_CFLAGS = $(eval LIB_CFLAGS := $$(shell $(PKG_CONFIG) --cflags $(LIBRARIES)))$(LIB_CFLAGS)
LIB_LIBS = $(eval LIB_LIBS := $$(shell $(PKG_CONFIG) --libs $(LIBRARIES)))$(LIB_LIBS)

GEN := build/gen
COMPILE = $(CC) -std=c11 -D_GNU_SOURCE -Iserver -I$(GEN) -fPIE -pthread $(OPTIMIZE) $(HARDENING)
LINK = $(CC) $(if $(SYSROOT),-static-pie,-pie) -Wl,-z,relro,-z,now -Wl,--as-needed -pthread $(LINK_EXTRA)

# --- What there is -----------------------------------------------------------------------------

PROTO := $(wildcard proto/kinesis_sidecar/v1/*.proto proto/grpc/*/*/*.proto)
GEN_C := $(PROTO:proto/%.proto=$(GEN)/%.pb-c.c)
GEN_H := $(GEN_C:.c=.h)
DESCRIPTORS := $(if $(PROTO),$(GEN)/descriptors.pb)

find = $(wildcard $(1)/$(2) $(1)/*/$(2) $(1)/*/*/$(2) $(1)/*/*/*/$(2))
objects = $(patsubst %.c,$(B)/obj/%.o,$(1))

MAIN_C := server/main/main.c
SERVER_C := $(call find,server,*.c)
PURE_C := $(call find,server/core,*.c) \
    $(wildcard $(addprefix server/base/,$(addsuffix .c,err heap instant list map prng retry)))

# Programs: one for each *_test.c; other .c files beside them, and tests/lib, help all of them.
TEST_KINDS := unit vectors oom contract
TEST_C := $(foreach kind,$(TEST_KINDS),$(call find,tests/$(kind),*_test.c))
HELPER_C := $(wildcard tests/lib/*.c) \
    $(filter-out $(TEST_C),$(foreach kind,$(TEST_KINDS),$(call find,tests/$(kind),*.c)))
SIM_C := $(wildcard tests/simulation/*.c)
BENCH_C := $(wildcard tests/bench/*.c)
FUZZ_C := $(wildcard tests/fuzz/*.c)
DOUBLE_C := $(wildcard tests/doubles/*.c)
# X_Y.c is a part of the program X.c.
DOUBLE_PARTS = $(wildcard $(1:.c=_*.c))
DOUBLE_MAIN_C := $(filter-out $(foreach c,$(DOUBLE_C),$(call DOUBLE_PARTS,$(c))),$(DOUBLE_C))

BIN := $(B)/kinesis-sidecar
SIM := $(if $(SIM_C),$(B)/sim)
LIB := $(B)/libsidecar.a
HELP := $(B)/libkstest.a
TESTS := $(TEST_C:%.c=$(B)/%)
BENCHES := $(BENCH_C:tests/%.c=$(B)/%)
FUZZERS := $(FUZZ_C:tests/fuzz/%.c=$(B)/bin/%)
DOUBLES := $(DOUBLE_MAIN_C:tests/%.c=$(B)/%)
of = $(filter $(B)/tests/$(1)/%,$(TESTS))

# --- Build -------------------------------------------------------------------------------------

.PHONY: all
all: $(BIN) $(DESCRIPTORS)  ## Build build/kinesis-sidecar.

$(BIN): $(call objects,$(MAIN_C)) $(LIB)
	$(call say,link     $@)
	$(Q)$(LINK) -o $@ $^ $(LIB_LIBS)

$(LIB): $(call objects,$(filter-out $(MAIN_C),$(SERVER_C))) $(GEN_C:$(GEN)/%.c=$(B)/obj/gen/%.o)
	@rm -f $@
	@ar qcs $@ $^

$(HELP): $(call objects,$(HELPER_C))
	@rm -f $@
	@ar qcs $@ $^

$(B)/obj/server/%.o: server/%.c $(B)/flags | $(TOOLS) $(GEN_H) $(GEN)/descriptors.inc $(GEN)/dashboard.inc
	@mkdir -p $(@D)
	$(call say,compile  $<)
	$(Q)$(COMPILE) $(WARNINGS) $(FLOOR) $(LIB_CFLAGS) -MMD -MP -c -o $@ $<

TEST_OBJECTS := $(call objects,$(TEST_C) $(filter-out tests/lib/%,$(HELPER_C)))
$(TEST_OBJECTS): OPTIMIZE := $(TEST_OPTIMIZE)
$(TEST_OBJECTS): HARDENING := $(TEST_HARDENING)
$(TEST_OBJECTS): FLOOR := $(TEST_FLOOR)
$(B)/obj/tests/%.o: tests/%.c $(B)/flags | $(TOOLS) $(GEN_H)
	@mkdir -p $(@D)
	$(call say,compile  $<)
	$(Q)$(COMPILE) $(WARNINGS) $(FLOOR) $(LIB_CFLAGS) -Itests -Itests/lib -MMD -MP -c -o $@ $<

# Enums of libraries grow with their versions: only there may a switch have a default.
$(B)/obj/server/adapters/%.o $(B)/obj/server/aws/http.o $(B)/obj/server/api/%.o: \
    FLOOR := -Wno-switch-enum

# Generated code is not ours to warn about.
$(B)/obj/gen/%.o: $(GEN)/%.c $(B)/flags | $(TOOLS) $(GEN_H)
	@mkdir -p $(@D)
	$(call say,compile  $<)
	$(Q)$(COMPILE) -w $(LIB_CFLAGS) -c -o $@ $<

$(GEN)/%.pb-c.c $(GEN)/%.pb-c.h &: proto/%.proto $(PROTO) | $(TOOLS)
	@mkdir -p $(GEN)
	$(call say,generate $@)
	$(Q)protoc-c --proto_path=proto --c_out=$(GEN) $<

# What the binary carries, for reflection and for people: bytes, as C reads them.
$(GEN)/descriptors.inc: $(GEN)/descriptors.pb
$(GEN)/dashboard.inc: server/api/dashboard.html
$(GEN)/descriptors.inc $(GEN)/dashboard.inc:
	@mkdir -p $(@D)
	@od -An -v -tx1 $< | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g' > $@

$(GEN)/descriptors.pb: $(PROTO) | $(TOOLS)
	@mkdir -p $(GEN)
	$(call say,generate $@)
	$(Q)protoc --proto_path=proto --include_imports -o $@ $(PROTO)

# Changes only when the flags do; then everything of the variant is compiled again.
FLAGS := $(COMPILE) $(WARNINGS) $(TEST_OPTIMIZE)
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
.PHONY: FORCE

# --- Tests -------------------------------------------------------------------------------------

$(TESTS): $(B)/%: $(B)/obj/%.o $(HELP) $(LIB)
	@mkdir -p $(@D)
	$(call say,link     $@)
	$(Q)$(LINK) $(TEST_LINKER) -o $@ $^ $(LIB_LIBS)

# The simulator has objects of its own, without hardening: a faster simulator runs more seeds in a given time. Link-time
# optimization gained nothing over -O3, and took 20 s of processor time.
WHOLE := $(if $(filter release,$(VARIANT)),-O3)
whole = $(patsubst %.c,$(B)/whole/%.o,$(SIM_C) $(PURE_C) server/base/budget.c server/base/bytes.c)
$(B)/sim: $(whole)
	$(call say,link     $@)
	$(Q)$(LINK) $(OPTIMIZE) $(WHOLE) -o $@ $^

$(B)/whole/%.o: HARDENING :=
$(B)/whole/%.o: %.c $(B)/flags | $(TOOLS)
	@mkdir -p $(@D)
	$(call say,compile  $<)
	$(Q)$(COMPILE) $(WHOLE) $(WARNINGS) -Itests -MMD -MP -c -o $@ $<

$(BENCHES): $(B)/bench/%: $(B)/obj/tests/bench/%.o $(HELP) $(LIB)
	@mkdir -p $(@D)
	$(call say,link     $@)
	$(Q)$(LINK) -o $@ $^ $(LIB_LIBS)

# What tests put in the place of the world: programs that need nothing of ours.
.SECONDEXPANSION:
$(DOUBLES): $(B)/%: $(B)/obj/tests/%.o $$(call objects,$$(call DOUBLE_PARTS,tests/$$*.c))
	@mkdir -p $(@D)
	$(call say,link     $@)
	$(Q)$(LINK) -o $@ $^ $(LIB_LIBS)

# The variables a test may use.
export KS_BIN := $(CURDIR)/$(BIN)
export KS_SIM := $(CURDIR)/$(B)/sim
export KS_BUILD := $(CURDIR)/$(B)
ifeq ($(VARIANT),san)
export KS_SANITIZED := 1
export ASAN_OPTIONS := detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS := print_stacktrace=1
endif

RUN := tests/lib/run
# How many programs run at the same time of those that wait most of their time, for leases, deadlines and paces.
WAITING := 6
RESULTS := $(B)/results
ALL_EMULATORS := dynoxide kinesis-local kinesalite moto double
WITH_EMULATORS := tests/emulators/with $(ALL_EMULATORS) --
CONTRACT_PY := $(sort $(wildcard tests/contract/*_test.py))
# The emulators of each contract program: the start of one takes up to 2 s of processor time. A program that is not
# named here gets all of them.
EMULATORS_dead_letters_test := dynoxide moto
EMULATORS_dead_letters_dynamodb_test := dynoxide
EMULATORS_dead_letters_s3_test := moto
EMULATORS_dead_letters_sqlite_test :=
EMULATORS_lease_store_test := dynoxide
EMULATORS_lease_store_dynamodb_test := dynoxide
EMULATORS_lease_store_sqlite_test :=
EMULATORS_dead_letters_faults_test := dynoxide moto
EMULATORS_letter_claims_test :=
EMULATORS_letter_claims_s3_test :=
EMULATORS_stream_source_test := kinesis-local kinesalite moto double
EMULATORS_kinesis_double_test.py := kinesis-local kinesalite double
emulators_of = $(if $(filter undefined,$(origin EMULATORS_$(notdir $(1)))),$(ALL_EMULATORS),$(EMULATORS_$(notdir $(1))))
beside = "tests/emulators/with $(call emulators_of,$(1)) -- $(1)$(2)"
# The suite of streams waits most of its time, for paces and clocks: it is done in three shares at the same time.
STREAM_SUITE := $(B)/tests/contract/stream_source_test
STREAMS = $(foreach share,1 2 3,$(call beside,$(STREAM_SUITE), --share $(share)/3))
CONTRACT = $(foreach one,$(filter-out $(STREAM_SUITE),$(call of,contract)) $(CONTRACT_PY),$(call beside,$(one)))
# The programs that take longest begin first, so that none of them runs alone at the end; the others in any order.
LONGEST := leases letters_table fleet kcl_rb letters_sink delivery letters_s3 damaged_files kcl3 main_job mixed \
    go_kcl_defects kcl_streams kcl credentials go_kcl kinsumer subscriptions fanout takeover operations embedded hostile
LONGEST := $(wildcard $(LONGEST:%=tests/e2e/%_test.py))
E2E := $(LONGEST) $(filter-out $(LONGEST),$(sort $(wildcard tests/e2e/*_test.sh tests/e2e/*_test.py)))
# All kinds of worlds, from 1000000 on with few numbers for shards, and seeds of high numbers that once found something.
SIMS = "$(SIM) --seed 1 --seeds $(SEEDS)" "$(SIM) --seed 1000000 --seeds $(SEEDS)" \
	$(foreach kind,shared kcl kcl3 kcl-streams kcl3-streams kcl-rb kinsumer,\
		"$(SIM) --$(kind) 1 $(SEEDS)" "$(SIM) --$(kind) 1000000 $(SEEDS)") \
	$(foreach one,kcl-10693 kcl3-1307 kcl3-4048 kcl3-6044 kcl3-6303 kcl3-7000309 kinsumer-1815,"$(SIM) --$(subst -, ,$(one)) 1")

# What the mutants need: the programs that they name, a compiler for what they change, and the linker.
MUTANT_TESTS = $(sort $(shell sed -s -n '1s|.* Seen by \(tests/[a-z0-9_/]*\): .*|$(B)/\1|p' tests/mutants/*.patch))
mutants: export MUTANT_COMPILE = $(CC) -std=c11 -D_GNU_SOURCE -Iserver -I$(GEN) -fPIE -pthread -O1 $(LIB_CFLAGS)
mutants: export MUTANT_LINK = $(LINK) $(TEST_LINKER)
mutants: export MUTANT_LIBRARIES = $(LIB_LIBS)

.PHONY: tests test unit vectors oom contract sim mutants e2e san
tests: all $(TESTS) $(SIM) $(DOUBLES)

test: deps tests  ## Run every test: unit, vectors, oom, contract, simulation, end to end; last line is the total.
	@rm -rf $(RESULTS)
	@$(RUN) -j $(WAITING) -o $(RESULTS) "end to end and contract; beside them simulation, vectors, oom and unit" -- \
		$(STREAMS) $(E2E) $(CONTRACT) --beside 2 $(SIMS) $(call of,oom) $(call of,vectors) $(call of,unit)

unit: $(call of,unit)  ## Run the unit tests.
	@$(RUN) -j 4 unit -- $^

vectors: $(call of,vectors)  ## Compare our bytes with the agreed bytes; public suites come from VECTORS_DIR.
	@$(RUN) -j 2 vectors -- $^

# For `release-check`, which runs those of VARIANT=static-arm64 by qemu-user.
.PHONY: unit-programs
unit-programs: $(call of,unit) $(call of,vectors)

oom: $(call of,oom)  ## Run the tests in which the n-th allocation fails.
	@$(RUN) -j 2 oom -- $^

contract: deps $(DOUBLES) $(call of,contract)  ## Run the suites of the ports against every adapter, with real emulators.
	@$(RUN) -j $(WAITING) contract -- $(STREAMS) $(CONTRACT)

# Built once, from the registry; not part of `make test`: not everybody has a cargo that is new enough.
FERROKINESIS := build/cargo/bin/ferrokinesis
$(FERROKINESIS):
	cargo install --quiet --locked --root build/cargo ferrokinesis@0.7.0

.PHONY: cross-check
cross-check: deps $(DOUBLES) $(FERROKINESIS)  ## Compare our double of Kinesis with one more opinion, ferrokinesis from crates.io.
	@$(RUN) cross-check -- "tests/emulators/with double ferrokinesis -- $(CONTRACT_PY)"

# From Maven Central; not part of `make test`: not everybody has a JDK.
ORACLE := $(B)/oracles/patterns
PAIRS ?= 200000
.PHONY: cross-check-patterns
cross-check-patterns: deps $(ORACLE)  ## Compare event patterns with event-ruler, by PAIRS=200000 pairs of pattern and record from SEED.
	@tests/oracles/build
	@tests/oracles/patterns.py $(SEED) $(PAIRS)
$(ORACLE): $(B)/oracles/%: $(B)/obj/tests/oracles/%.o $(LIB)
	@mkdir -p $(@D)
	$(call say,link     $@)
	$(Q)$(LINK) -o $@ $^ $(LIB_LIBS)

# AWS's own DynamoDB, from Maven Central; not part of `make test`: not everybody has Java.
.PHONY: cross-check-dynamodb
build/dynamodb-local: tests/emulators/dynamodb-local/pom.xml
	@tests/need mvn:maven java=17:openjdk-17-jre-headless
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$@
	@touch $@
cross-check-dynamodb: deps build/dynamodb-local $(call of,contract)  ## Run the suites of what lies in DynamoDB against AWS's DynamoDB Local.
	@$(RUN) cross-check-dynamodb -- $(patsubst %,"tests/emulators/with dynamodb-local moto -- %",\
		$(filter %/lease_store_test %/lease_store_dynamodb_test %/dead_letters_test %/dead_letters_dynamodb_test,$(call of,contract)))

# S3 on a file system, which checks signatures, from the Go module proxy; not part of `make test`, where moto is S3: not
# everybody has a Go that is new enough.
VERSITYGW := build/versitygw/versitygw
$(VERSITYGW):
	@$(NEED_GO)
	@mkdir -p $(@D)
	GOBIN=$(CURDIR)/$(@D) go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

.PHONY: cross-check-s3
cross-check-s3: deps all $(DOUBLES) $(VERSITYGW) $(call of,contract)  ## Run the suites of what lies in S3 against versitygw; KS_LETTERS=1000 for the long stories.
	@TEST_SECONDS=1200 $(RUN) cross-check-s3 -- $(patsubst %,"tests/emulators/with dynoxide kinesis-local versitygw -- %",\
		$(filter %/dead_letters_test %/dead_letters_s3_test,$(call of,contract)) tests/e2e/letters_s3_test.py)

# Suites that others wrote, from the Go module proxy; not part of `make test`: not everybody has a Go that is new enough.
NEED_GO := tests/need go=1.26:golang-go
CONFORMANCE := build/conformance
CONFORMANCE_GEN = $(patsubst $(CONFORMANCE)/gen/%.c,$(CONFORMANCE)/obj/%.o,$(call find,$(CONFORMANCE)/gen,*.c))

.PHONY: conformance interop-grpc
conformance: all  ## Run the conformance suite of connectrpc against our calls: Connect and gRPC, both HTTPs.
	@$(NEED_GO)
	@tests/conformance/prepare
	$(AGAIN) $(CONFORMANCE)/server
	@tests/conformance/run

interop-grpc: all  ## Run the interop tests of gRPC with grpc-go's client.
	@$(NEED_GO)
	@tests/conformance/prepare
	$(AGAIN) $(CONFORMANCE)/interop
	@tests/conformance/run-interop

$(B)/obj/tests/conformance/%.o: FLOOR := -I$(CONFORMANCE)/gen -Itests/conformance
$(CONFORMANCE)/obj/%.o: $(CONFORMANCE)/gen/%.c
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -w -I$(CONFORMANCE)/gen -c -o $@ $<
$(CONFORMANCE)/server $(CONFORMANCE)/interop: $(CONFORMANCE)/%: $(B)/obj/tests/conformance/%.o \
    $(B)/obj/tests/conformance/floor.o $$(CONFORMANCE_GEN) $(LIB)
	$(call say,link     $@)
	$(Q)$(LINK) -o $@ $^ $(LIB_LIBS)

# Built once, from the Go module proxy; not part of `make test`: not everybody has Go.
H2SPEC := build/h2spec/h2spec
$(H2SPEC): tests/h2spec/go.mod tests/h2spec/go.sum
	@$(NEED_GO)
	@mkdir -p $(@D)
	cd tests/h2spec && go build -mod=readonly -o ../../$@ github.com/summerwind/h2spec/cmd/h2spec

.PHONY: h2spec
h2spec: deps all $(H2SPEC)  ## Ask h2spec, from the Go module proxy, what it thinks of our HTTP/2.
	tests/h2spec/run $(H2SPEC)

sim: $(SIM)  ## Simulate the core from one seed, or from N of them: `make sim SEED=7 N=1000`; a seed replays exactly.
	$(SIM) --seed $(SEED) --seeds $(N)
	$(SIM) --shared $(SEED) $(N)
	$(SIM) --kcl $(SEED) $(N)
	$(SIM) --kcl3 $(SEED) $(N)
	$(SIM) --kcl-streams $(SEED) $(N)
	$(SIM) --kcl3-streams $(SEED) $(N)
	$(SIM) --kinsumer $(SEED) $(N)
	$(SIM) --kcl-rb $(SEED) $(N)

# `make test` simulates SEEDS=300 worlds of each kind.
.PHONY: seeds
seeds: SEEDS := 2000
seeds: $(SIM)  ## Simulate SEEDS=2000 worlds of each kind that `make test` simulates.
	@rm -rf $(RESULTS)/seeds
	@TEST_SECONDS=3600 $(RUN) -j $(shell nproc) -o $(RESULTS)/seeds simulation -- $(SIMS)

SECONDS ?= 900
.PHONY: soak
soak: deps all $(DOUBLES)  ## Have two sidecars share a stream, SECONDS=900 by polling and as long by fan-out, while everything goes wrong by chance.
	@KS_SOAK_SECONDS=$(SECONDS) tests/soak/soak.py

.PHONY: operations
operations: deps all  ## Have apps and operators do everything of the API by chance, for SECONDS=900, on one or two sidecars.
	@KS_SOAK_SECONDS=$(SECONDS) tests/soak/operations.py

.PHONY: load
load: deps all  ## Judge costly clients beside an app that behaves well: its p99, memory, heartbeats.
	@tests/load/load.py

.PHONY: seccomp calls
seccomp: deps all $(DOUBLES)  ## Run the end-to-end tests with --seccomp on.
	@KINESIS_SIDECAR_SECCOMP=on $(RUN) -j 4 "end to end" -- $(E2E)

# The demo's test counts processes, and strace is one.
calls: deps all $(DOUBLES)  ## Run them under strace, and compare the calls of the system with server/main/calls.def.
	@tests/need strace:strace
	@tests/lib/calls $(KS_BIN) $(RUN) -j 4 "end to end" -- $(filter-out %/demo_test.sh,$(E2E))

.PHONY: bench-fleet
bench-fleet: $(SIM)  ## Simulate 500 workers that share 10,000 shards, and tell what fleets cost beside KCL.
	$(SIM) --scale 500 10000
	$(SIM) --scale 0 0

mutants: deps $(SIM) $(call objects,$(SIM_C)) $(DOUBLES) $(MUTANT_TESTS)  ## Plant each mistake of tests/mutants/*.patch; the simulator or a test must see it.
	@$(WITH_EMULATORS) tests/mutants/run $(B) $(MUTANTS)

e2e: deps all $(DOUBLES)  ## Run the end-to-end tests: real process, emulators, client stubs.
	@$(RUN) -j 4 "end to end" -- $(E2E)

san:  ## Run the whole of `make test` with address and undefined-behaviour sanitizers.
	$(AGAIN) VARIANT=san test

# --- Habits ------------------------------------------------------------------------------------

PACKAGES := python typescript go java ruby php rust c csharp
OTHER_CLIENTS := http curl grpcio grpc-js connect-es connect-go grpc-go grpc-java
CLIENTS ?= $(PACKAGES) $(OTHER_CLIENTS)
.PHONY: clients packages
packages: deps deps-packages  ## Build the artefacts for the registries into build/packages, twice, and compare them.
	@tests/packages/package $(filter $(PACKAGES),$(CLIENTS))

clients: deps deps-packages all  ## Judge the packages of client-stubs/ and clients that others wrote, each by one scenario; CLIENTS='python curl' for some.
	@rm -rf $(RESULTS)/clients
	@TEST_SECONDS=2400 $(RUN) -j 4 -o $(RESULTS)/clients clients -- \
		$(foreach one,$(filter $(PACKAGES),$(CLIENTS)),"tests/packages/judge.py $(one)") \
		$(foreach one,$(filter $(OTHER_CLIENTS),$(CLIENTS)),"tests/clients/judge.py $(one)") || :
	@tests/lib/total $(RESULTS)/clients

FLEETS ?= kcl35 kcl2 kcl34 multilang go-kcl go-kcl-v2 kinsumer
.PHONY: interop interop-vectors
interop: deps all $(DOUBLES)  ## Have sidecars share fleets with libraries of other people, each built from its registry; FLEETS='go-kcl' for some.
	@tests/interop/build $(FLEETS)
	@rm -rf $(RESULTS)/interop
	@TEST_SECONDS=2400 $(RUN) -j 3 -o $(RESULTS)/interop "fleets of others" -- $(FLEETS:%="tests/interop/judge.py %") \
		$(if $(filter kcl-rb,$(FLEETS)),,tests/interop/defects.py) || :
	@tests/lib/total $(RESULTS)/interop

# LIBRARY-STORY
FLIPS := kcl34-flip kcl35-flip kcl35-tables multilang-mixed
.PHONY: interop-flips
interop-flips: deps all $(DOUBLES)  ## Likewise, what takes long: fleets of KCL that migrate, and one whose leader is missed for two minutes.
	@tests/interop/build kcl2 kcl34 kcl35 multilang kinsumer-snowplow
	@rm -rf $(RESULTS)/interop-flips
	@TEST_SECONDS=2400 $(RUN) -j 3 -o $(RESULTS)/interop-flips "fleets of others, on their way" -- \
		$(foreach one,$(FLIPS),"env STORIES=$(lastword $(subst -, ,$(one))) tests/interop/judge.py $(firstword $(subst -, ,$(one)))") \
		"tests/interop/judge.py kinsumer-snowplow" || :
	@tests/lib/total $(RESULTS)/interop-flips

interop-vectors: deps  ## Capture anew what those libraries write into their tables: tests/vectors/dialects/.
	@tests/interop/capture.py $(FLEETS)

# Tools from PyPI and the Go module proxy; not part of `make test`: not everybody has a Go that is new enough.
.PHONY: deploy-check-infra
deploy-check-infra: all  ## Check what is in deploy/ for ECS, Compose, Terraform and CloudFormation against iam-policy and table-schema.
	@tests/deploy/infra

.PHONY: bare proof
bare:  ## Build a bare Debian 12 with debootstrap and do `make run`, `make demo` and `make test` in it; STEPS='run demo' for some; as root.
	@tests/bare $(STEPS)

# One after the other; each ends with a total of its own.
PROOFS := mutants seeds san soak operations load seccomp calls cross-check cross-check-dynamodb cross-check-s3 cross-check-patterns schemathesis interop-flips bare release-check upgrade-check
proof:  ## Run the long proofs: mutants, seeds, san, soak, operations, load, seccomp, calls, cross-check, cross-check-dynamodb, cross-check-s3, cross-check-patterns, schemathesis, interop-flips, bare, release-check, upgrade-check; one after the other.
	@failed=; for one in $(PROOFS); do \
	    echo "== make $$one"; $(MAKE) $$one || failed="$$failed $$one"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

.PHONY: schemathesis
schemathesis: $(B)/schemathesis/bin/schemathesis $(BIN)  ## Requests that schemathesis (PyPI) makes of openapi.json.
	@tests/e2e/schemathesis $(CURDIR)/$<
$(B)/schemathesis/bin/schemathesis:
	@tests/need python3=3.11:python3-venv
	@python3 -m venv $(B)/schemathesis && $(B)/schemathesis/bin/pip install -q schemathesis==4.32.5

.PHONY: browser
browser: deps all  ## The dashboard in a headless Chromium; pictures of it go to build/browser.
	@tests/need chromium:chromium chromedriver:chromium-driver
	@tests/e2e/browser $(CURDIR)/$(B)/browser

.PHONY: check bench fuzz fuzz-coverage fuzzers objects pure format docs
check: deps  ## Check the house: floors, purity, banned calls, headers, lengths, format, warnings, cppcheck, pyflakes.
	@tests/tidy/run

# For `check`: all of ours compiled by another compiler, and the core alone.
objects: $(call objects,$(SERVER_C) $(HELPER_C) $(TEST_C) $(SIM_C) $(BENCH_C) $(DOUBLE_C))
pure: $(call objects,$(PURE_C))

bench: deps all $(BENCHES) $(DOUBLES)  ## Measure, and keep what was measured as JSON lines in build/bench.jsonl.
	@tests/lib/bench build/bench.jsonl $(filter-out %/clients,$(BENCHES)) $(wildcard tests/bench/*_bench.sh tests/bench/*_bench.py)

.PHONY: bench-clients bench-other-clients
bench-clients: deps deps-packages all $(DOUBLES)  ## Measure the CPU time of each package of client-stubs/ with its sidecar, beside the SDK's own loop.
	@RESULTS=$(CURDIR)/build/bench.jsonl tests/packages/bench.py $(filter $(PACKAGES),$(CLIENTS))

# The MultiLangDaemon is from Maven Central.
.PHONY: bench-release
bench-release: deps deps-release-check all release  ## Measure size, start and memory of the released programs, beside the dynamic one and the MultiLangDaemon.
	@tests/interop/build multilang
	@tests/lib/bench build/bench.jsonl tests/bench/release.py

bench-other-clients: deps all $(B)/bench/clients  ## Measure clients that others wrote; it needs what `make clients` needs.
	@for build in tests/clients/*/build; do $$build || exit; done
	@tests/lib/bench build/bench.jsonl $(B)/bench/clients

fuzz: deps deps-fuzz  ## Fuzz every parser of outside bytes for FUZZ_SECONDS=10 each.
	$(AGAIN) VARIANT=fuzz fuzzers
	@tests/lib/fuzz $(FUZZ_SECONDS) $(FUZZ_C:tests/fuzz/%.c=build/fuzz/bin/%)

fuzz-coverage: deps deps-fuzz  ## What of server/ the fuzz programs reach with the inputs that are kept.
	$(AGAIN) VARIANT=cover fuzzers
	@tests/lib/fuzz_coverage $(FUZZ_C:tests/fuzz/%.c=build/cover/bin/%)

fuzzers: $(FUZZERS)
# Where everybody waits, time goes on: the clock is theirs.
$(B)/bin/%_api: LINK_EXTRA += -Wl,--wrap=clock_gettime
$(B)/bin/%: $(B)/obj/tests/fuzz/%.o $(LIB)
	@mkdir -p $(@D)
	$(call say,link     $@)
	$(Q)$(LINK) -o $@ $^ $(LIB_LIBS)

# The words of a page are ours, its table is the code's.
docs: $(B)/render  ## Render the tables of docs/OPTIONS.md, docs/METRICS.md, docs/AWS.md, docs/INFRASTRUCTURE.md, deploy/terraform and the options of the chart from the code's own tables.
	@for page in OPTIONS: METRICS: AWS:statement INFRASTRUCTURE:dialect; do \
	    { sed "/^| $${page#*:}/,\$$d" docs/$${page%:*}.md && $(B)/render $${page%:*}; } > $(B)/page && \
	        mv $(B)/page docs/$${page%:*}.md; \
	done
	@$(B)/render PERMISSIONS > deploy/terraform/permissions.json
	@$(B)/render TABLES > deploy/terraform/tables.json
	@$(B)/render OPENAPI > docs/openapi.json
	@tests/deploy/options_schema.py --write
$(B)/render: $(B)/obj/tests/docs/render.o $(LIB)
	$(call say,link     $@)
	$(Q)$(LINK) -o $@ $^ $(LIB_LIBS)

format: deps  ## Format every C file of ours in place.
	clang-format -i $(call find,server,*.[ch]) $(call find,tests,*.[ch])

# --- Try it ------------------------------------------------------------------------------------

.PHONY: run demo
run: all deps-run  ## Start the sidecar here, on SQLite and a local stream that a small producer feeds.
	@deploy/run $(BIN)

demo: all deps-run  ## Tell the whole story without hands: put, consume, acknowledge, kill -9, go on.
	@deploy/demo $(BIN)

# --- Release -----------------------------------------------------------------------------------

prefix ?= /usr/local
.PHONY: install release
install: all  ## Install the program, its manual page, completions and unit of systemd below DESTDIR and prefix=/usr/local.
	@UNIT_BINDIR=$(prefix)/bin deploy/release/files $(BIN) $(DESTDIR)$(prefix)

release: deps-static-amd64 deps-static-arm64 deps-release  ## Build what is released, for amd64 and arm64, into build/release.
	@deploy/release/clean
	$(AGAIN) VARIANT=static-amd64 all
	$(AGAIN) VARIANT=static-arm64 all
	@deploy/release/release build/release

# Charts, manifests, image and unit. Tools and schemas are made once, outside the checkout; not part of `make test`: not
# everybody has a Go that is new enough.
.PHONY: deploy-check
deploy-check: deps-deploy all  ## Judge what deploy/ has: charts and manifests by schemas of Kubernetes, alerts, the demo, the image, the unit.
	@tests/deploy/run

RELEASE_TESTS := $(filter-out %/upgrade_test.py,$(sort $(wildcard tests/release/*_test.py)))
.PHONY: release-check
release-check: deps deps-release-check release  ## Prove what is released: built twice, packages, charts, image, names in an empty root, arm64 by qemu; as root.
	$(AGAIN) VARIANT=static-arm64 unit-programs
	@TEST_SECONDS=3600 $(RUN) release -- $(RELEASE_TESTS)

# tests/release/build-old says which version is the older one, and keeps what it built in build/upgrade.
.PHONY: upgrade-check
upgrade-check: deps all $(DOUBLES)  ## Upgrade a fleet from an older version, OLD=COMMIT or the last release, to this one and back, under load.
	@old=$$(tests/release/build-old $(OLD)) && KS_OLD=$$old $(RUN) upgrade -- tests/release/upgrade_test.py

# --- The rest ----------------------------------------------------------------------------------

# A plain `make` and `make install` call no package manager: they say what is missing.
DEPS := tests/deps $(if $(filter-out all install,$(or $(MAKECMDGOALS),all)),,--look)
.PHONY: deps deps-build deps-run deps-fuzz deps-packages deps-release deps-release-check deps-deploy deps-static-amd64 deps-static-arm64 clean help
deps:  ## Install what is missing to build and test, and nothing else.
	@tests/deps build test

deps-build deps-run deps-fuzz deps-packages deps-release deps-release-check deps-deploy deps-static-amd64 deps-static-arm64: deps-%:
	@$(DEPS) $*

clean:  ## Remove everything that was built.
	rm -rf build

help:  ## List what make can do.
	@sed -n 's/^\([a-z0-9-]*\):.*  ## \(.*\)/\1\t\2/p' Makefile | expand -t 12

-include $(patsubst %.o,%.d,$(whole) $(call objects,$(SERVER_C) $(HELPER_C) $(TEST_C) $(SIM_C) $(BENCH_C) $(FUZZ_C) $(DOUBLE_C) tests/docs/render.c tests/oracles/patterns.c))
