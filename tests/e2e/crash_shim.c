/* Preloaded, it makes one call of an HDF5 function crash, as the library may on a damaged file. CRASH_CALL names the
 * function, CRASH_NTH says which of its calls (0: none), CRASH_HOW where: "here", in "memset", or "inside" the
 * function. CRASH_COUNT is a file that gets the number of calls of each function that was called. crash_names.h, which
 * the tests write, has a line CRASHING(number, name) for each function that the program imports. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CRASHING(NUMBER, NAME) #NAME,
static const char *const names[] = {
#include "crash_names.h"
};
#undef CRASHING
enum { NAMES = sizeof names / sizeof *names };

static atomic_int calls[NAMES];

static void crash(void *function) {
    const char *how = getenv("CRASH_HOW");
    if (how && strcmp(how, "inside") == 0) {
        unsigned char *page = (unsigned char *)((uintptr_t)function & ~(uintptr_t)4095);
        mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
        memcpy(function, "\x0f\x0b", 2); /* ud2 */
    } else if (how && strcmp(how, "memset") == 0) {
        memset((void *)(uintptr_t)8, 0, 1000);
    } else {
        *(volatile int *)8 = 0;
    }
}

/* Counts a call and returns the function. */
__attribute__((visibility("hidden"), used)) void *crash_count(int number) {
    const char *wanted = getenv("CRASH_CALL"), *nth = getenv("CRASH_NTH");
    void *function = dlsym(RTLD_NEXT, names[number]);
    if (++calls[number] == (nth ? atoi(nth) : 0) && wanted && strcmp(wanted, names[number]) == 0) crash(function);
    return function;
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("CRASH_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    for (int i = 0; i < NAMES; i++)
        if (calls[i]) fprintf(file, "%s %d\n", names[i], (int)calls[i]);
    fclose(file);
}

/* Keeps the registers of the arguments, and passes them on. */
#define CRASHING(NUMBER, NAME)                                                                                         \
    __asm__(".globl " #NAME "\n.type " #NAME ", @function\n" #NAME ":\n"                                               \
            ".cfi_startproc\nsub $200, %rsp\n.cfi_adjust_cfa_offset 200\n"                                             \
            "mov %rdi, (%rsp)\nmov %rsi, 8(%rsp)\nmov %rdx, 16(%rsp)\nmov %rcx, 24(%rsp)\nmov %r8, 32(%rsp)\n"         \
            "mov %r9, 40(%rsp)\nmov %rax, 48(%rsp)\nmovups %xmm0, 64(%rsp)\nmovups %xmm1, 80(%rsp)\n"                  \
            "mov $" #NUMBER ", %edi\ncall crash_count\nmov %rax, %r11\n"                                               \
            "mov (%rsp), %rdi\nmov 8(%rsp), %rsi\nmov 16(%rsp), %rdx\nmov 24(%rsp), %rcx\nmov 32(%rsp), %r8\n"         \
            "mov 40(%rsp), %r9\nmov 48(%rsp), %rax\nmovups 64(%rsp), %xmm0\nmovups 80(%rsp), %xmm1\n"                  \
            "add $200, %rsp\n.cfi_adjust_cfa_offset -200\njmp *%r11\n.cfi_endproc\n.size " #NAME ", . - " #NAME);
#include "crash_names.h"
