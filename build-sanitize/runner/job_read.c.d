build-sanitize/runner/job_read.c.o: runner/job_read.c runner/job_read.h \
 runner/job_keys.h runner/job.h runner/../kernels/operation.h \
 runner/../kernels/../runner/fail.h runner/../kernels/kernel.h \
 runner/../kernels/registry.def runner/random.h runner/yaml.h \
 runner/job_parameters.h runner/fail.h
runner/job_read.h:
runner/job_keys.h:
runner/job.h:
runner/../kernels/operation.h:
runner/../kernels/../runner/fail.h:
runner/../kernels/kernel.h:
runner/../kernels/registry.def:
runner/random.h:
runner/yaml.h:
runner/job_parameters.h:
runner/fail.h:
