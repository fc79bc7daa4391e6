/* new_kernel.c - `tilerun new-kernel OP FILE`: writes a first version of a kernel for `source:` in a job. */
#include "../../kernels/core/operation.h"
#include "../base/path.h"
#include "../base/spelling.h"
#include "../compile/embedded.h"
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* Names that no function can have in C or C++, or in a source that includes tilerun.h; blanks around each. */
static const char taken[] =
    " T T_OUT and asm auto bool break case catch char class const continue default delete do double else enum explicit "
    "export extern false float for friend goto half if inline int int8_t int16_t int32_t int64_t linux long mutable "
    "namespace new not operator or private protected public register restrict return short signed sizeof static "
    "struct switch template this throw true try typedef typename uint8_t uint16_t uint32_t uint64_t union unix "
    "unsigned using virtual void volatile while xor ";

/* The function's name in `path`: its stem, with '_' for what a name in C cannot have. The caller frees. */
static char *name_of(const char *path) {
    OWNED char *name = path_stem(path);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    OWNED char *word = must_printf(" %s ", name);
    const bool usable = (isalpha((unsigned char)*name) || *name == '_') && !strstr(taken, word);
    return must_printf("%s%s", usable ? "" : "k_", name);
}

/* Prints a template with `name` for each NAME. */
static void print_text(FILE *to, const char *text, const char *name) {
    for (const char *next; (next = strstr(text, "NAME")); text = next + 4)
        fprintf(to, "%.*s%s", (int)(next - text), text, name);
    fputs(text, to);
}

/* Finds the template for an operation and for the language that the suffix of `path` states. STATUS_USAGE: there is
 * none. */
static enum status find_template(const char *op, const char *path, const char **text, struct error *error) {
    const char *names[OP_COUNT] = {NULL}, *suffix = path_suffix(path);
    int count = 0;
    for (int i = 0; i < OP_COUNT; i++) {
        OWNED char *name = must_printf("%s.c", operations[i]->name);
        if (embedded_text(name)) names[count++] = operations[i]->name;
    }
    bool known = false;
    for (int i = 0; i < count; i++) known |= strcmp(names[i], op) == 0;
    char hint[HINT_TEXT];
    const char *map = ": a map's expression is its kernel";
    if (!known)
        return fail(
            error, STATUS_USAGE, "new-kernel: there is no kernel template for '%s'%s", op,
            strcmp(op, "map") == 0 ? map : name_hint(op, names, count, "; `tilerun list` shows the operations", hint));
    if (strcmp(suffix, ".c") != 0 && strcmp(suffix, ".cu") != 0)
        return fail(error, STATUS_USAGE, "new-kernel: %s: the name must end in .c (for the CPU) or .cu (for the GPU)",
                    path);
    OWNED char *name = must_printf("%s%s", op, suffix);
    *text = embedded_text(name);
    return STATUS_OK;
}

/* Returns how a kernel is launched on a GPU, ", block: 256, grid: ...", as the job in the template's comment states
 * it. The caller frees. */
static char *launch_of(const char *text) {
    static const char entry[] = "{source: NAME.cu";
    const char *begin = strstr(text, entry);
    if (!begin) return must_strdup("");
    begin += strlen(entry);
    return must_printf("%.*s", (int)strcspn(begin, "}"), begin);
}

/* Writes the template to FILE, which must not exist, and prints the variant that uses it. */
static enum status new_kernel(const struct invocation *invocation, struct error *error) {
    const char *path = invocation->operands[1], *text = NULL;
    TRY(find_template(invocation->operands[0], path, &text, error));
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *to = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (!to && errno == EEXIST)
        return fail(error, STATUS_USAGE, "new-kernel: %s exists already, and is not replaced", path);
    if (!to) return fail(error, STATUS_USAGE, "new-kernel: %s cannot be written: %s", path, strerror(errno));
    OWNED char *name = name_of(path);
    print_text(to, text, name);
    bool good = !ferror(to);
    good = fclose(to) == 0 && good; /* closes in any case */
    enum status status = good ? STATUS_OK : fail_write(error, path, errno);
    const char *file = path_name(path);
    OWNED char *launch = launch_of(text);
    const bool same = strncmp(file, name, strlen(name)) == 0 && file[strlen(name)] == '.';
    if (good)
        printf("wrote %s; in a job: variants: [{source: %s%s%s%s}], and `tilerun run JOB --allow-source`\n", path, file,
               same ? "" : ", kernel: ", same ? "" : name, launch);
    return status;
}

const struct command command_new_kernel = {
    .name = "new-kernel",
    .summary = "Write a first version of a kernel, for `source:` in a job.",
    .description =
        "OP is matmul, reduce, transpose or scale; FILE ends in .c for the CPU or .cu for the GPU. The kernel "
        "is simple and right, and has the file's name. It is compiled when a job with `variants: [{source: "
        "FILE}]` runs; nothing is built or installed.\n",
    .operands = {"OP FILE", WORD_OTHER, .min = 2, .max = 2},
    .rows = no_options,
    .run = new_kernel,
};
