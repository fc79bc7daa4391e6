build-sanitize/kernels/reduce_cpu.c.o: kernels/reduce_cpu.c \
 kernels/reduce_state.h kernels/kernel.h kernels/registry.def
kernels/reduce_state.h:
kernels/kernel.h:
kernels/registry.def:
