build-sanitize/kernels/op_matmul.c.o: kernels/op_matmul.c \
 kernels/reference.h kernels/operation.h kernels/../runner/fail.h \
 kernels/kernel.h kernels/registry.def kernels/cpu.h
kernels/reference.h:
kernels/operation.h:
kernels/../runner/fail.h:
kernels/kernel.h:
kernels/registry.def:
kernels/cpu.h:
