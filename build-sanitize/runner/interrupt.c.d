build-sanitize/runner/interrupt.c.o: runner/interrupt.c \
 runner/interrupt.h runner/fail.h
runner/interrupt.h:
runner/fail.h:
