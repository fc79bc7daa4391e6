build-sanitize/kernels/reduce_blocked.c.o: kernels/reduce_blocked.c \
 kernels/convert.h kernels/kernel.h kernels/registry.def kernels/cpu.h \
 kernels/reduce_state.h
kernels/convert.h:
kernels/kernel.h:
kernels/registry.def:
kernels/cpu.h:
kernels/reduce_state.h:
