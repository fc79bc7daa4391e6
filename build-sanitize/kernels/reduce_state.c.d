build-sanitize/kernels/reduce_state.c.o: kernels/reduce_state.c \
 kernels/reduce_state.h kernels/kernel.h kernels/registry.def
kernels/reduce_state.h:
kernels/kernel.h:
kernels/registry.def:
