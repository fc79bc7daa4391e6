build-sanitize/kernels/op_reduce.c.o: kernels/op_reduce.c \
 kernels/reference.h kernels/operation.h kernels/../runner/fail.h \
 kernels/kernel.h kernels/registry.def kernels/cpu.h \
 kernels/reduce_state.h
kernels/reference.h:
kernels/operation.h:
kernels/../runner/fail.h:
kernels/kernel.h:
kernels/registry.def:
kernels/cpu.h:
kernels/reduce_state.h:
