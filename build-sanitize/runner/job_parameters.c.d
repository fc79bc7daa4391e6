build-sanitize/runner/job_parameters.c.o: runner/job_parameters.c \
 runner/job_parameters.h runner/yaml.h runner/fail.h
runner/job_parameters.h:
runner/yaml.h:
runner/fail.h:
