build-sanitize/runner/job_keys.c.o: runner/job_keys.c runner/job_keys.h \
 runner/job.h runner/../kernels/operation.h \
 runner/../kernels/../runner/fail.h runner/../kernels/kernel.h \
 runner/../kernels/registry.def runner/random.h runner/yaml.h
runner/job_keys.h:
runner/job.h:
runner/../kernels/operation.h:
runner/../kernels/../runner/fail.h:
runner/../kernels/kernel.h:
runner/../kernels/registry.def:
runner/random.h:
runner/yaml.h:
