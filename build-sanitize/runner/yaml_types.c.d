build-sanitize/runner/yaml_types.c.o: runner/yaml_types.c \
 runner/yaml_parts.h runner/yaml.h
runner/yaml_parts.h:
runner/yaml.h:
