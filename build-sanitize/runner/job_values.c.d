build-sanitize/runner/job_values.c.o: runner/job_values.c runner/job.h \
 runner/../kernels/operation.h runner/../kernels/../runner/fail.h \
 runner/../kernels/kernel.h runner/../kernels/registry.def \
 runner/random.h runner/yaml.h runner/fail.h
runner/job.h:
runner/../kernels/operation.h:
runner/../kernels/../runner/fail.h:
runner/../kernels/kernel.h:
runner/../kernels/registry.def:
runner/random.h:
runner/yaml.h:
runner/fail.h:
