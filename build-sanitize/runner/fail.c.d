build-sanitize/runner/fail.c.o: runner/fail.c runner/fail.h
runner/fail.h:
