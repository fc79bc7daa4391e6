build-sanitize/kernels/dtype.c.o: kernels/dtype.c kernels/convert.h \
 kernels/kernel.h kernels/registry.def
kernels/convert.h:
kernels/kernel.h:
kernels/registry.def:
