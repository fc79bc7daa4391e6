build-sanitize/kernels/operation.c.o: kernels/operation.c \
 kernels/reference.h kernels/operation.h kernels/../runner/fail.h \
 kernels/kernel.h kernels/registry.def
kernels/reference.h:
kernels/operation.h:
kernels/../runner/fail.h:
kernels/kernel.h:
kernels/registry.def:
