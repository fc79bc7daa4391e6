/* Preloaded, it makes one call of an HDF5 function that reads crash, as the library may on a damaged file: CRASH_CALL
 * names the function, CRASH_NTH which of the calls; 0: none. CRASH_COUNT is a file that gets their number. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int calls;

static void count(const char *name) {
    const char *wanted = getenv("CRASH_CALL"), *nth = getenv("CRASH_NTH");
    if (!wanted || !nth || strcmp(wanted, name) != 0) return;
    if (++calls == atoi(nth)) *(volatile int *)8 = 0;
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("CRASH_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%d\n", (int)calls);
    fclose(file);
}

#define CRASHING(NAME, DECLARED, PASSED)                                                                               \
    int NAME DECLARED {                                                                                                \
        int(*real) DECLARED = (int(*) DECLARED)dlsym(RTLD_NEXT, #NAME);                                                \
        count(#NAME);                                                                                                  \
        return real PASSED;                                                                                            \
    }

typedef long id;
CRASHING(H5Aread, (id attribute, id type, void *to), (attribute, type, to))
CRASHING(H5Dread, (id from, id type, id memory, id file, id list, void *to), (from, type, memory, file, list, to))
CRASHING(H5Aiterate2, (id at, int index, int order, void *first, void *each, void *to),
         (at, index, order, first, each, to))
CRASHING(H5Ocopy, (id from, const char *old, id to, const char *new, id how, id links),
         (from, old, to, new, how, links))
