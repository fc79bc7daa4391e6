# tilerun: `make help` lists the targets. Two compilers: $(CC) for C11, nvcc for CUDA C where there is one.
# Knobs: PREFIX DESTDIR CUDA_HOME HDF5_DIR YAML_DIR CUDA_ARCHS CUDA=0 PYTHON SANITIZE=1

# On all cores, unless the command line says how many; but of several goals one after the other.
MAKEFLAGS  += $(if $(word 2,$(MAKECMDGOALS)),,-j$(shell nproc))

PREFIX     ?= /usr/local
PYTHON     ?= $(firstword $(foreach p,python3 /usr/bin/python3,$(if $(shell $(p) -c 'import h5py, numpy, pytest, xxhash, jsonschema' 2>/dev/null && echo y),$(p))) python3)
CUDA_HOME  ?= $(patsubst %/bin/nvcc,%,$(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc)))
CUDA       ?= $(if $(wildcard $(CUDA_HOME)/bin/nvcc),1,0)
CUDA_ARCHS ?= 80 90a
BUILD      ?= build$(if $(SANITIZE),-sanitize)

# ---- where the libraries are: HDF5_DIR or YAML_DIR (a prefix, for all of yaml, xxhash, deflate, cmocka), else pkg-config
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

# libdeflate decodes gzip two to three times as fast; zlib, which HDF5 itself needs, where it is absent.
DEFLATE  := $(if $(or $(wildcard $(YAML_DIR)/include/libdeflate.h),$(wildcard /usr/include/libdeflate.h),$(shell pkg-config --exists libdeflate 2>/dev/null && echo y)),1,0)

DEFINES  := -D_GNU_SOURCE -DTILERUN_CUDA=$(CUDA) -DTILERUN_LIBDEFLATE=$(DEFLATE)
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes
CFLAGS   ?= -O2 -g
comma    := ,
SAN      := $(if $(SANITIZE),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
override CFLAGS += -std=c11 -pthread -fopenmp -MMD -MP $(WARNINGS) $(DEFINES) $(HDF5_CFLAGS) $(YAML_CFLAGS) $(SAN)
LDLIBS   := $(YAML_LIBS) -lyaml -lxxhash $(if $(filter 1,$(DEFLATE)),-ldeflate,-lz) $(HDF5_LIBS) -lcrypto -lm -ldl -fopenmp -pthread $(SAN)

GENCODE   = $(foreach a,$(filter-out native,$(CUDA_ARCHS)),-gencode arch=compute_$(a),code=sm_$(a)) \
            $(if $(filter native,$(CUDA_ARCHS)),-arch=native,-gencode arch=compute_80$(comma)code=compute_80)
NVCC     := $(CUDA_HOME)/bin/nvcc
NVFLAGS  ?= -O3 # and -lineinfo for a profiler: the driver then takes 40 ms longer to load a large kernel file
NVFLAGS  += -std=c++20 $(GENCODE) -MMD -MP --Werror all-warnings -diag-error 177 -Xptxas -warn-spills -Xcompiler -Wall -DTILERUN_CUDA=1
NVFLAGS  += -DTILERUN_SM90A=$(if $(filter 90a,$(CUDA_ARCHS)),1,0) # is there code for wgmma

SOURCES := $(wildcard runner/*.c runner/*/*.c kernels/*/*.c) $(if $(filter 1,$(CUDA)),$(wildcard kernels/*/*.cu),)
ifneq ($(CUDA),1)
SOURCES := $(filter-out runner/stream/device_cuda.c,$(SOURCES))
else
override CFLAGS += -isystem $(CUDA_HOME)/include
LDLIBS  += -L$(CUDA_HOME)/lib64 -lcudart_static -lrt -lstdc++
endif
OBJECTS := $(patsubst %,$(BUILD)/%.o,$(SOURCES))
LIBRARY := $(filter-out $(BUILD)/runner/main.c.o,$(OBJECTS))
PROGRAM := $(BUILD)/tilerun
UNITS   := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))

.PHONY: all help demo test unit valgrind bench deps format lint install clean generated
.DEFAULT_GOAL := all

# demo and test are all that a fresh machine needs: the packages come first, after which make reads this file anew.
ifneq ($(filter demo test,$(MAKECMDGOALS)),)
-include $(BUILD)/deps.mk
$(BUILD)/deps.mk:
	@PYTHON=$(PYTHON) tests/deps.sh && mkdir -p $(@D) && touch $@
endif

all: $(PROGRAM) ## build build/tilerun (CPU-only, and saying so, where there is no nvcc)
ifneq ($(CUDA),1)
	@echo "tilerun: built without CUDA ($(if $(findstring file,$(origin CUDA)),no nvcc found; set CUDA_HOME,CUDA=0)): CPU variants only"
endif

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile

# One line a step; `make V=1` shows the commands.
say = $(if $(V),,@echo "  $(1) $@";)

$(PROGRAM): $(OBJECTS)
	$(call say,link)$(CC) -o $@ $^ $(LDLIBS)

$(BUILD)/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,cc  )$(CC) $(CFLAGS) -c -o $@ $<

$(BUILD)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,nvcc)$(NVCC) $(NVFLAGS) -c -o $@ $<

# The commit is baked into one small file, rebuilt when it changes.
COMMIT := $(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
$(shell mkdir -p $(BUILD) && echo '$(COMMIT)' | cmp -s - $(BUILD)/commit || echo '$(COMMIT)' > $(BUILD)/commit)
$(BUILD)/runner/result/environment.c.o: override CFLAGS += -DTILERUN_COMMIT='"$(COMMIT)"'
$(BUILD)/runner/result/environment.c.o: $(BUILD)/commit

$(BUILD)/tests/%: tests/unit/%.c $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,test)$(CC) $(CFLAGS) -o $@ $< $(LIBRARY) -lcmocka $(LDLIBS)

demo: $(PROGRAM) ## run a small job on a real data set and show what it wrote
	@tests/demo.sh $(PROGRAM)

test: $(PROGRAM) $(UNITS) ## unit, golden, end-to-end, Slurm and GPU tests; what cannot run here is skipped and counted
	@BUILD=$(BUILD) PYTHON=$(PYTHON) CUDA=$(CUDA) tests/run.sh

unit: $(UNITS) ## the C unit tests alone
	@for t in $(UNITS); do $$t || exit 1; done

valgrind: $(PROGRAM) $(UNITS) ## the host code under valgrind; minutes
	@BUILD=$(BUILD) tests/valgrind.sh

bench: $(PROGRAM) ## time the variants beside the vendor's on this GPU
	@tests/bench/run.sh $(PROGRAM)

generated: $(PROGRAM) ## rewrite what is generated: configs/job.schema.json, the reference in configs/README.md
	@tests/generate.sh $(PROGRAM)

deps: ## install what the build and the tests need (apt), or print its name elsewhere
	@PYTHON=$(PYTHON) tests/deps.sh

format: ## clang-format every source file in place
	clang-format -i $(wildcard runner/*.[ch] runner/*/*.[ch] kernels/*/*.[ch] kernels/*/*.cu kernels/*/*.cuh tests/unit/*.[ch])

lint: ## clang-format, clang-tidy, cppcheck: silent when clean
	@BUILD=$(BUILD) CFLAGS="$(DEFINES) $(HDF5_CFLAGS) $(YAML_CFLAGS) -I$(CUDA_HOME)/include" tests/lint.sh

install: $(PROGRAM) ## into $(DESTDIR)$(PREFIX)
	install -D -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/tilerun
	install -d $(DESTDIR)$(PREFIX)/share/tilerun
	cp -r configs data $(DESTDIR)$(PREFIX)/share/tilerun/

clean: ## remove build products
	rm -rf build build-sanitize

-include $(OBJECTS:.o=.d) $(UNITS:=.d)
