build-sanitize/runner/yaml.c.o: runner/yaml.c runner/yaml.h runner/fail.h \
 runner/yaml_parts.h
runner/yaml.h:
runner/fail.h:
runner/yaml_parts.h:
