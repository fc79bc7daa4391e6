build-sanitize/runner/job.c.o: runner/job.c runner/job.h \
 runner/../kernels/operation.h runner/../kernels/../runner/fail.h \
 runner/../kernels/kernel.h runner/../kernels/registry.def \
 runner/random.h runner/yaml.h runner/fail.h runner/job_expand.h \
 runner/job_resolve.h runner/job_read.h runner/job_keys.h \
 runner/job_parameters.h
runner/job.h:
runner/../kernels/operation.h:
runner/../kernels/../runner/fail.h:
runner/../kernels/kernel.h:
runner/../kernels/registry.def:
runner/random.h:
runner/yaml.h:
runner/fail.h:
runner/job_expand.h:
runner/job_resolve.h:
runner/job_read.h:
runner/job_keys.h:
runner/job_parameters.h:
