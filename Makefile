# tilerun: `make help` lists the targets. Two compilers: $(CC) for C11, nvcc for CUDA C where there is one.
# Knobs: PREFIX DESTDIR CC CFLAGS CPPFLAGS LDFLAGS NVFLAGS CUDA_HOME HDF5_DIR YAML_DIR CUDA_ARCHS VARIANTS CUDA=0 DEFLATE=0
# LZF=0 BUNDLE SANITIZE V=1, and for demo and test DEPS=0 (install nothing) and PYTHON (the tests' interpreter). What a
# changed knob concerns is rebuilt. `make help` prints the lines that begin with a colon.
#: CUDA_ARCHS="80 90"            compute capabilities to compile for; 90 stands for 9.0a too; native: this machine's GPUs.
#:                               The highest also becomes PTX, which newer GPUs compile for themselves.
#: VARIANTS="matmul/naive ..."   the CUDA variants to compile; unless set all
#: BUNDLE=1                      `make install` copies the libraries too, and what it installs can be moved elsewhere

# On all cores, unless the command line says how many; but of several goals one after the other.
MAKEFLAGS  += $(if $(word 2,$(MAKECMDGOALS)),,-j$(shell nproc))

PREFIX     ?= /usr/local
CUDA_HOME  ?= $(patsubst %/bin/nvcc,%,$(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc)))
CUDA       ?= $(if $(wildcard $(CUDA_HOME)/bin/nvcc),1,0)
SANITIZE   ?= $(if $(filter sanitize,$(MAKECMDGOALS)),1)
COVERAGE   ?= $(if $(filter coverage,$(MAKECMDGOALS)),1)
BUILD      ?= build$(if $(COVERAGE),-coverage,$(if $(SANITIZE),-$(if $(filter thread,$(SANITIZE)),threads,sanitize)))

# ---- where the libraries are: HDF5_DIR, YAML_DIR (a prefix, for yaml, xxhash, deflate, lzf and cmocka), else pkg-config
HDF5_PC    := $(firstword $(foreach p,hdf5 hdf5-serial,$(if $(shell pkg-config --exists $(p) 2>/dev/null && echo y),$(p))))
ifdef HDF5_DIR
HDF5_CFLAGS := -I$(HDF5_DIR)/include
HDF5_LIBS   := -L$(HDF5_DIR)/lib -Wl,-rpath,$(HDF5_DIR)/lib -lhdf5
else ifneq ($(HDF5_PC),)
HDF5_CFLAGS := $(shell pkg-config --cflags $(HDF5_PC))
HDF5_LIBS   := $(shell pkg-config --libs $(HDF5_PC))
else
HDF5_LIBS   := -lhdf5
endif
ifdef YAML_DIR
YAML_LIB    := $(firstword $(wildcard $(YAML_DIR)/lib/*-linux-gnu) $(YAML_DIR)/lib)
YAML_CFLAGS := -I$(YAML_DIR)/include
YAML_LIBS   := -L$(YAML_LIB) -Wl,-rpath,$(abspath $(YAML_LIB))
endif

# Two libraries that the program can do without. libdeflate decodes gzip two to three times as fast as zlib, which HDF5
# itself needs; without liblzf what h5py compressed with LZF is refused.
optional = $(if $(or $(wildcard $(YAML_DIR)/include/$(2)),$(wildcard /usr/include/$(2)),$(shell pkg-config --exists $(1) 2>/dev/null && echo y)),1,0)
DEFLATE  := $(call optional,libdeflate,libdeflate.h)
LZF      := $(call optional,liblzf,liblzf/lzf.h)
ifeq ($(LZF),1)
LZF_CFLAGS := $(or $(shell pkg-config --cflags liblzf 2>/dev/null),$(addprefix -I,$(wildcard $(YAML_DIR)/include/liblzf /usr/include/liblzf)))
endif

# H5_USE_110_API: later HDF5 libraries keep the function signatures of 1.10 under this name.
DEFINES  := -D_GNU_SOURCE -DH5_USE_110_API= -DTILERUN_CUDA=$(CUDA) -DTILERUN_LIBDEFLATE=$(DEFLATE) -DTILERUN_LZF=$(LZF)
CC_SAYS  := $(shell $(CC) --version 2>/dev/null | head -n 1)
# clang also says which loops it could not make vector code of, as some that gcc can.
WARNINGS := $(if $(findstring clang,$(CC_SAYS)),-Wno-pass-failed) -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes
CFLAGS   ?= -O2 -g
comma    := ,
# RPATH, not RUNPATH: libraries of libraries are found there too.
BUNDLED  := $(if $(BUNDLE),-Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma)'$$ORIGIN/../lib/tilerun')
CHECKS   := $(if $(filter thread,$(SANITIZE)),thread,address$(comma)undefined -fno-sanitize-recover=undefined)
SAN      := $(if $(SANITIZE),-fsanitize=$(CHECKS) -fno-omit-frame-pointer)
override CFLAGS += -std=c11 -pthread -fopenmp -MMD -MP $(WARNINGS) $(DEFINES) $(HDF5_CFLAGS) $(YAML_CFLAGS) $(LZF_CFLAGS) $(SAN)
# musl gives a thread 128 KiB of stack unless the program asks for more (as process.c does of other C libraries).
STACKS   := -Wl,-z,stack-size=8388608
LDLIBS   := $(BUNDLED) $(STACKS) $(YAML_LIBS) -lyaml -lxxhash $(if $(filter 1,$(DEFLATE)),-ldeflate,-lz) $(if $(filter 1,$(LZF)),-llzf) $(HDF5_LIBS) -lcrypto -lm -ldl -fopenmp -pthread $(SAN)

SOURCES := $(wildcard runner/*.c runner/*/*.c runner/*/*/*.c kernels/*/*.c kernels/*/*/*.c)
KERNELS := $(wildcard kernels/*/*/*.cu kernels/*/*.cu)
PIECES  := $(foreach f,$(KERNELS),$(filter $(f:.cu=_%.cu),$(KERNELS))) # NAME_*.cu of a variant's NAME.cu
KERNELS := $(PIECES) $(filter-out $(PIECES),$(KERNELS)) # those that take longest first
DEMO    :=
ifneq ($(CUDA),1)
SOURCES := $(filter-out runner/stream/device_cuda.c runner/stream/nvml.c,$(SOURCES))
else
override CFLAGS += -isystem $(CUDA_HOME)/include
LDLIBS  += -L$(CUDA_HOME)/lib64 -lcudart_static -lrt -lstdc++
gpus     = $(sort $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/\1\2/p'))

# The first `make demo` compiles only the variants that its job names, for this machine's GPU, in a folder of its own:
# the objects of `make` stay as they are.
ifeq ($(MAKECMDGOALS),demo)
ifneq ($(filter-out $(wildcard $(KERNELS:%=$(BUILD)/%.o)),$(KERNELS:%=$(BUILD)/%.o)),)
DEMO       := demo/
ifndef CUDA_ARCHS
CUDA_ARCHS := $(if $(gpus),native,80)
endif
VARIANTS   ?= $(filter $(subst /tuned/,/,$(KERNELS:kernels/%.cu=%)),$(shell tr -c 'a-z_\n' ' ' < configs/quickstart.yaml | \
                  awk '{ for (i = 1; i <= NF; i++) if ($$i == "op") op = $$++i; else print op "/" $$i }'))
endif
endif

# A variant's files are kernels/OP/NAME.cu and NAME_*.cu, or the same in OP/tuned.
files    = $(foreach d,$(dir $(1)) $(dir $(1))tuned/,kernels/$(d)$(notdir $(1)).cu kernels/$(d)$(notdir $(1))_%.cu)
COMPILED := $(if $(VARIANTS),$(sort $(foreach v,$(VARIANTS),$(or $(filter $(call files,$(v)),$(KERNELS)),$(error VARIANTS: no CUDA variant is called $(v))))),$(KERNELS))

# wgmma exists in 9.0a alone, whose PTX no other GPU takes: variants for Hopper alone are compiled for 9.0a alone, all
# others for 9.0. There is no PTX of `native`, which is for this machine.
CUDA_ARCHS ?= 80 90
ARCHS    := $(sort $(patsubst 90a,90,$(foreach a,$(CUDA_ARCHS),$(if $(filter native,$(a)),$(or $(gpus),$(error CUDA_ARCHS=native: nvidia-smi shows no GPU)),$(a)))))
PTX      := $(if $(filter native,$(CUDA_ARCHS)),,$(shell printf '%s\n' $(ARCHS) | sort -n | tail -n 1 | tr -d a-z))
gencode   = $(foreach a,$(1),-gencode arch=compute_$(a),code=sm_$(a)) $(foreach a,$(2),-gencode arch=compute_$(a),code=compute_$(a))
GENCODE   = $(call gencode,$(ARCHS),$(PTX))
HOPPER   := $(shell grep -l 'only_below = 100' $(COMPILED))
HOPPER   += $(foreach f,$(HOPPER),$(filter $(f:.cu=_%.cu),$(COMPILED)))
NVCC     := $(CUDA_HOME)/bin/nvcc
NVFLAGS  ?= -O3 # and -lineinfo for a profiler: the driver then takes 40 ms longer to load a large kernel file
override NVFLAGS += -std=c++20 $(GENCODE) -MMD -MP --Werror all-warnings -diag-error 177 -Xptxas -warn-spills -Xcompiler -Wall -DTILERUN_CUDA=1
override NVFLAGS += $(foreach f,$(CPPFLAGS),$(if $(filter -D% -U% -I%,$(f)),$(f),-Xcompiler $(f)))
# Is there code for compute capability 9.0a?
SM90A    := -DTILERUN_SM90A=$(if $(filter 90,$(ARCHS)),1,0)
override NVFLAGS += $(SM90A)
endif
VARIANT_FILES := $(wildcard kernels/*/*.c kernels/*/*/*.c) $(KERNELS)

# registry.awk describes the variants that are not compiled.
LEFT_OUT := $(BUILD)/kernels/core/left_out.c
EMBEDDED := $(BUILD)/runner/compile/embedded_texts.c
OBJECTS := $(COMPILED:%=$(BUILD)/$(DEMO)%.o) $(SOURCES:%=$(BUILD)/%.o) $(LEFT_OUT).o $(EMBEDDED).o
LIBRARY := $(filter-out $(BUILD)/runner/main.c.o,$(OBJECTS))
PROGRAM := $(BUILD)/tilerun
UNITS   := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))

.PHONY: all help demo check test unit valgrind sanitize coverage mutants bare packages real fuzz soak bench deps format lint install uninstall dist clean generated goldens force
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

# A fresh machine needs only demo, check and test: they first install what they lack. Then deps.mk is new, so that make
# reads this file again and finds it. `make -n` also remakes what it includes, and must install nothing.
NEEDED    := $(or $(if $(filter check test,$(MAKECMDGOALS)),test),$(filter demo,$(MAKECMDGOALS)))
bring_deps = @BUILD='$(BUILD)' CC='$(CC)' HDF5_DIR='$(HDF5_DIR)' YAML_DIR='$(YAML_DIR)' DEPS='$(DEPS)' \
             PYTHON='$(PYTHON)' CUDA='$(CUDA)' tests/deps.sh
ifeq ($(findstring n,$(firstword -$(MAKEFLAGS))),)
ifneq ($(NEEDED),)
include $(BUILD)/deps.mk
$(BUILD)/deps.mk: force
	$(bring_deps) $(NEEDED)
endif
endif

all: $(BUILD)/registered $(PROGRAM) ## build build/tilerun (CPU-only, and saying so, where there is no nvcc)
ifneq ($(CUDA),1)
	@echo "tilerun: built without CUDA ($(if $(findstring file,$(origin CUDA)),no nvcc found; set CUDA_HOME,CUDA=0)): CPU variants only"
endif

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile
	@sed -n 's/^#: /  /p' Makefile

# One line a step, for the demo one line in all, on a terminal; `make V=1` shows the commands.
tell = $(if $(filter demo,$(MAKECMDGOALS)),[ ! -t 1 ] || printf '\033[K%s\r' "  $(1) $@",echo "  $(1) $@")
say  = $(if $(V),,@$(tell);)

# Flags are prerequisites too: BUILD/NAME holds the words of a command, and is made anew when they have changed.
# The words name the compiler's release, since another one may have taken its place. No newline ends them, for make 4.3
# takes it off only sometimes when it reads them back.
CC_WORDS   := $(CC) $(CPPFLAGS) $(CFLAGS) \# $(CC_SAYS)
NVCC_WORDS := $(if $(filter 1,$(CUDA)),$(NVCC) $(NVFLAGS) \# $(shell $(NVCC) --version 2>/dev/null | tail -n 1))
LINK_WORDS := $(CC) $(LDFLAGS) $(OBJECTS) $(LDLIBS)
VARIANT_WORDS := $(VARIANT_FILES) \# $(COMPILED)
# Nothing is asked where nothing is built. Git is asked only about this folder, not about a repository that it happens to lie in. In a release, which
# `git archive` makes, git has put the commit (.gitattributes) into the next line:
# archived: $Format:%H$
BUILDS     := $(filter-out install uninstall dist clean,$(or $(MAKECMDGOALS),all))
COMMIT     := $(if $(BUILDS),$(shell [ "$$(git rev-parse --show-toplevel 2>/dev/null)" = "$$(pwd -P)" ] && git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || sed -n 's/^\# archived: \([0-9a-f]\{12\}\)[0-9a-f]*$$/\1/p' Makefile | grep . || echo unknown))
CONTENT    := $(shell find runner kernels -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) | LC_ALL=C sort | xargs cat | sha256sum | cut -c 1-32)
IDENTITY   := $(COMMIT) $(CONTENT)
# Limits that were measured stay valid while what measures and is measured does: sources, and flags that change code.
MEASURING  := $(shell find kernels runner/limits runner/stream/measure.c -name '*.[ch]' | LC_ALL=C sort | xargs cat | sha256sum | cut -c 1-16) $(filter -O% -m% -f%,$(CFLAGS))
MEASURING_CUDA := $(MEASURING) $(shell find kernels -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort | xargs cat | sha256sum | cut -c 1-16)
BOTH_MEASURING := $(MEASURING) $(MEASURING_CUDA)
define stamp
$(BUILD)/$(1): $$(if $$(call same,$$(file < $(BUILD)/$(1)),$$($(2))),,force)
	@mkdir -p $$(@D)
	@printf %s '$$(subst ','\'',$$($(2)))' > $$@
endef
same = $(and $(findstring |$(1)|,|$(2)|),$(findstring |$(2)|,|$(1)|))
$(eval $(call stamp,cc.flags,CC_WORDS))
$(eval $(call stamp,$(DEMO)nvcc.flags,NVCC_WORDS))
$(eval $(call stamp,sm90a.flags,SM90A))
$(eval $(call stamp,link.flags,LINK_WORDS))
$(eval $(call stamp,commit,IDENTITY))
$(eval $(call stamp,measuring,BOTH_MEASURING))
$(eval $(call stamp,variants,VARIANT_WORDS))

# A variant without its line in registry.def would be built, but never found.
REGISTRY := kernels/core/registry
$(BUILD)/registered: $(REGISTRY).awk $(REGISTRY).def $(VARIANT_FILES) $(BUILD)/variants
	@mkdir -p $(LEFT_OUT:%/left_out.c=%)
	@awk -v not_compiled='$(filter-out $(COMPILED),$(KERNELS))' -f $(REGISTRY).awk $(REGISTRY).def $(VARIANT_FILES) > $(LEFT_OUT).new
	@cmp -s $(LEFT_OUT).new $(LEFT_OUT) || mv $(LEFT_OUT).new $(LEFT_OUT)
	@rm -f $(LEFT_OUT).new
	@touch $@
$(LEFT_OUT): $(BUILD)/registered
	@:

$(PROGRAM): $(OBJECTS) $(BUILD)/link.flags | $(BUILD)/registered
	$(call say,link)$(CC) $(LDFLAGS) -o $@ $(OBJECTS) $(LDLIBS)

$(BUILD)/%.c.o: %.c $(BUILD)/cc.flags
	@mkdir -p $(@D)
	$(call say,cc  )$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(LEFT_OUT).o: override CFLAGS += -Ikernels/core
$(LEFT_OUT).o: $(LEFT_OUT) $(BUILD)/cc.flags
	$(call say,cc  )$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# tilerun.h and the first versions of kernels are texts in the program.
TEXTS := runner/compile/templates/tilerun.h.in kernels/core/kernel.h $(wildcard runner/compile/templates/*.c*.in)
$(EMBEDDED): runner/compile/embed.awk $(TEXTS)
	@mkdir -p $(@D)
	@awk -f runner/compile/embed.awk $(TEXTS) > $@

$(EMBEDDED).o: override CFLAGS += -Irunner/compile -Wno-overlength-strings
$(EMBEDDED).o: $(EMBEDDED) $(BUILD)/cc.flags
	$(call say,cc  )$(CC) $(CFLAGS) -c -o $@ $<

$(HOPPER:%=$(BUILD)/$(DEMO)%.o): GENCODE = $(if $(filter 90,$(ARCHS)),$(call gencode,90a),$(call gencode,$(ARCHS),$(PTX)))
$(BUILD)/$(DEMO)%.cu.o: %.cu $(BUILD)/$(DEMO)nvcc.flags
	@mkdir -p $(@D)
	$(call say,nvcc)$(NVCC) $(NVFLAGS) -c -o $@ $<

$(BUILD)/kernels/core/registry.c.o: override CFLAGS += $(SM90A)
$(BUILD)/kernels/core/registry.c.o: $(BUILD)/sm90a.flags

# The commit and the hash of the sources are baked into one small file.
$(BUILD)/runner/record/environment.c.o: override CFLAGS += -DTILERUN_COMMIT='"$(COMMIT)"' -DTILERUN_SOURCES='"$(CONTENT)"'
$(BUILD)/runner/record/environment.c.o: $(BUILD)/commit

$(BUILD)/runner/limits/limits_file.c.o: override CFLAGS += -DTILERUN_MEASURING='"$(MEASURING)"' -DTILERUN_MEASURING_CUDA='"$(MEASURING_CUDA)"'
$(BUILD)/runner/limits/limits_file.c.o: $(BUILD)/measuring

# In the runner each branch of the source is to be one of the code; of the kernels it is only to be known which ran.
ifneq ($(COVERAGE),)
LDLIBS += $(BUILD)/tests/coverage.o --coverage -Wl,--wrap=_exit
$(BUILD)/runner/%.c.o: override CFLAGS += -O0 --coverage -fprofile-update=atomic
$(BUILD)/kernels/%.c.o: override CFLAGS += --coverage
$(PROGRAM) $(UNITS): $(BUILD)/tests/coverage.o
$(BUILD)/tests/coverage.o: tests/coverage.c $(BUILD)/cc.flags
	@mkdir -p $(@D)
	$(call say,cc  )$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
endif

# cmocka passes each test a state, which most do not use.
$(BUILD)/tests/%: tests/unit/%.c $(LIBRARY) $(BUILD)/cc.flags $(BUILD)/link.flags | $(BUILD)/registered
	@mkdir -p $(@D)
	$(call say,test)$(CC) $(CPPFLAGS) $(CFLAGS) -Wno-unused-parameter $(LDFLAGS) -o $@ $< $(LIBRARY) -lcmocka $(LDLIBS)

ifeq ($(MAKECMDGOALS)$(MAKE_RESTARTS)$(wildcard $(PROGRAM)),demo)
$(info $(PROGRAM) is built first: about a minute)
endif
demo: $(PROGRAM) ## run a small job on a real data set and show what it wrote
	@[ ! -t 1 ] || printf '\033[K'
	@tests/demo.sh $(PROGRAM)

check: $(PROGRAM) $(UNITS) ## a minute of tests before a commit: unit, golden and forty end-to-end tests
	@BUILD='$(BUILD)' CUDA=$(CUDA) UNITS='$(UNITS)' CHECK=1 tests/run.sh

test: $(PROGRAM) $(UNITS) ## unit, golden, end-to-end, Slurm and GPU tests; what cannot run here is skipped and counted
	@BUILD='$(BUILD)' CUDA=$(CUDA) UNITS='$(UNITS)' tests/run.sh

unit: $(UNITS) ## the C unit tests alone
	@for t in $(UNITS); do $$t || exit 1; done

valgrind: $(PROGRAM) $(UNITS) ## the host code under valgrind; minutes
	@BUILD=$(BUILD) UNITS='$(UNITS)' tests/valgrind.sh

sanitize: $(PROGRAM) $(UNITS) ## with SANITIZE=1 unit tests and jobs under ASan and UBSan, with SANITIZE=thread under TSan
	@BUILD=$(BUILD) UNITS='$(UNITS)' SANITIZE='$(SANITIZE)' tests/sanitize.sh

coverage: $(PROGRAM) $(UNITS) ## which lines and branches of runner/ all tests run; fails under 90 % and 80 %; ten minutes
	@$(or $(PYTHON),$(wildcard build/python),python3) tests/coverage.py $(BUILD) $(PARTS)

mutants: ## plant N=200 mistakes in runner/ and kernels/ (GPU=1: in CUDA), drawn by SEED=1: do tests notice; hours
	@$(MAKE) --no-print-directory $(if $(GPU),BUILD=build-mutants-gpu,CUDA=0 BUILD=build-mutants CFLAGS=-O1) all
	@$(or $(PYTHON),$(wildcard build/python),python3) tests/mutants.py build-mutants$(if $(GPU),-gpu) $(or $(N),200) $(or $(SEED),1)

# clang's libFuzzer beside an ordinary build, which makes the files to begin with.
FUZZ      := $(patsubst tests/fuzz/%.c,build-fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SAN  := address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -shared-libasan
fuzz: $(PROGRAM) ## fuzz job files, inputs, results and command lines for SECONDS=60 each, with clang
	@$(MAKE) --no-print-directory CC=clang CUDA=0 BUILD=build-fuzz CFLAGS='-O1 -g -w -fsanitize=fuzzer-no-link,$(FUZZ_SAN)' $(FUZZ)
	@BUILD=build-fuzz PYTHON='$(or $(PYTHON),$(wildcard $(BUILD)/python),python3)' TILERUN=$(PROGRAM) SECONDS_EACH=$(or $(SECONDS),60) tests/fuzz.sh

build-fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/fuzz.h $(LIBRARY) $(BUILD)/cc.flags
	$(call say,fuzz)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -Wno-unused-function -fsanitize=fuzzer,$(FUZZ_SAN) -Wl,--wrap=_exit,-rpath,$(dir $(shell clang --print-file-name=libclang_rt.asan-x86_64.so)) -o $@ $< $(LIBRARY) $(LDLIBS)

soak: $(PROGRAM) $(BUILD)/tests/test_kernels_random ## random jobs with all checks on for HOURS=1, watched for leaks; SEED=1 draws them
	@$(or $(PYTHON),$(wildcard $(BUILD)/python),python3) tests/soak.py $(PROGRAM) $(or $(HOURS),1) $(or $(SEED),1)

bare: ## the two commands on bare Debians, RELEASES="bookworm trixie sid" (root, debootstrap); eight minutes each
	@tests/bare.sh $(RELEASES)

packages: ## from a release to a run by each package, PACKAGES="debian wheel ..."; what cannot run here says why
	@for package in $(or $(PACKAGES),debian wheel spack easybuild conda apptainer module); do \
	    MAKEFLAGS='' tests/packages/$$package.sh || [ $$? = 77 ] || { echo "$$package FAILED"; exit 1; }; done

real: ## get other people's packages and files for the tests of real files, from the package index, into BUILD/real
	@python3 tests/real/get.py $(BUILD)

bench: $(PROGRAM) ## time the variants beside the vendor's on this GPU
	@tests/bench/run.sh $(PROGRAM)

families: $(PROGRAM) ## time families of shapes and data, drawn by SEED, beside the vendor's on this GPU
	@for job in shapes values thin; do $${PYTHON:-python3} tests/bench/families.py $$job --seed $(or $(SEED),1) --run $(PROGRAM) || exit 1; done

generated: $(PROGRAM) ## rewrite what is generated: configs/job.schema.json, the reference in configs/README.md
	@tests/generate.sh $(PROGRAM)

goldens: $(PROGRAM) ## rewrite the golden files, tests/jobs/bad/*.expected, for review by `git diff`
	@PYTHON='$(or $(PYTHON),$(wildcard build/python),python3)' tests/goldens.sh $(PROGRAM)

deps: ## install what the build and the tests lack, or print its name where apt is not
	$(bring_deps) test

format: ## clang-format every source file in place
	clang-format -i $(wildcard runner/*.[ch] runner/*/*.[ch] runner/*/*/*.[ch] kernels/*/*.[ch] kernels/*/*/*.[ch] kernels/*/*.cu kernels/*/*/*.cu kernels/*/*.cuh kernels/*/*/*.cuh tests/unit/*.[ch])

lint: ## clang-format, clang-tidy, cppcheck: silent when clean
	@BUILD=$(BUILD) CFLAGS="$(DEFINES) $(HDF5_CFLAGS) $(YAML_CFLAGS) $(LZF_CFLAGS) -I$(CUDA_HOME)/include" tests/lint.sh

# Installs what is there and compiles nothing, so that `sudo make install` needs no compiler and leaves BUILD as it is.
install: $(filter all,$(MAKECMDGOALS)) ## what `make` built, into $(DESTDIR)$(PREFIX): program, manual, completions, jobs
	@configs/packaging/install.sh $(PROGRAM) "$(DESTDIR)" "$(PREFIX)"

uninstall: ## remove what `make install` put there
	@configs/packaging/install.sh --remove "$(DESTDIR)" "$(PREFIX)"

VERSION    = $(shell sed -n 's/^const char tilerun_version.*"\(.*\)";/\1/p' runner/record/environment.c)
dist: ## pack the last commit into tilerun-VERSION.tar.gz, whose builds know it without git
	@git ls-files --error-unmatch Makefile > /dev/null
	git archive --prefix=tilerun-$(VERSION)/ -o tilerun-$(VERSION).tar.gz HEAD || { rm tilerun-$(VERSION).tar.gz; exit 1; }
	@git diff --quiet HEAD || echo "tilerun: changes that are not committed are left out" >&2

clean: ## remove build products
	rm -rf build build-sanitize build-threads build-coverage build-mutants build-mutants-gpu build-fuzz

-include $(OBJECTS:.o=.d) $(UNITS:=.d)
