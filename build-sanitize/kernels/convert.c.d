build-sanitize/kernels/convert.c.o: kernels/convert.c kernels/convert.h \
 kernels/kernel.h kernels/registry.def kernels/cpu.h
kernels/convert.h:
kernels/kernel.h:
kernels/registry.def:
kernels/cpu.h:
