/* coverage.c - linked into the instrumented build of `make coverage`: processes that end by _exit tell what they ran
 * too. The fault shim counts no calls from there on: the rest is gcov's. */
#include <dlfcn.h>

void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

/* gcov's own destructors are the last ones. */
__attribute__((destructor(101))) static void end_faults(void) {
    typedef void function(void);
    function *end = (function *)dlsym(RTLD_DEFAULT, "faults_end");
    if (end) end();
}

void __wrap__exit(int status) {
    end_faults();
    __gcov_dump();
    __real__exit(status);
}
