build-sanitize/kernels/shape.c.o: kernels/shape.c kernels/operation.h \
 kernels/../runner/fail.h kernels/kernel.h kernels/registry.def
kernels/operation.h:
kernels/../runner/fail.h:
kernels/kernel.h:
kernels/registry.def:
