build-sanitize/runner/yaml_errors.c.o: runner/yaml_errors.c \
 runner/yaml_parts.h runner/yaml.h runner/fail.h
runner/yaml_parts.h:
runner/yaml.h:
runner/fail.h:
