build-sanitize/runner/random.c.o: runner/random.c runner/random.h \
 runner/../kernels/operation.h runner/../kernels/../runner/fail.h \
 runner/../kernels/kernel.h runner/../kernels/registry.def \
 runner/../kernels/convert.h runner/../kernels/cpu.h
runner/random.h:
runner/../kernels/operation.h:
runner/../kernels/../runner/fail.h:
runner/../kernels/kernel.h:
runner/../kernels/registry.def:
runner/../kernels/convert.h:
runner/../kernels/cpu.h:
