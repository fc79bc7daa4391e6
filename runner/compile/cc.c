/* cc.c - runs the compiler twice. First `-E -dD` prints the text with all that it includes and all macros, which
 * contain the compiler's version and the processor's instructions; the hash of this is the cache's key. Then it
 * compiles, unless the cache has the code. */
#include "cc.h"

#include "../base/fail.h"
#include "../base/file_io.h"
#include "../base/hash.h"
#include "../base/interrupt.h"
#include "cache.h"
#include "embedded.h"
#include "rehearse.h"
#include "sources.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS   64  /* of a command line; further ones are dropped */
#define MAX_MESSAGE 900 /* bytes of the compiler's messages that an error keeps */

/* A kernel that would end the process at once calls `exit`, which fence_catch_exits reports. */
static const char *const flags[] = {
    "-O3",          "-march=native", "-fopenmp",         "-fPIC", "-fdiagnostics-color=never", "-g1",
    "-D_exit=exit", "-D_Exit=exit",  "-Dquick_exit=exit"};
enum { FLAGS = sizeof flags / sizeof *flags };

/* A command line: the words of $CC, then those that add_word appends. */
struct command_words {
    char *compiler; /* its words end in NULs */
    char *words[MAX_WORDS + 1];
    int count;
};

static void add_word(struct command_words *command, const char *word) {
    if (command->count < MAX_WORDS) command->words[command->count++] = (char *)word;
}

#define ADD_WORDS(command, ...) add_words(command, (const char *const[]){__VA_ARGS__, NULL})
static void add_words(struct command_words *command, const char *const words[]) {
    for (; *words; words++) add_word(command, *words);
}

static void free_command(struct command_words *command) {
    free(command->compiler);
}

/* Begins a command line: $CC, the flags, the macros, and `folder` for tilerun.h. free_command frees. */
static void begin_command(const struct cc_source *source, const char *folder, struct command_words *command) {
    const char *compiler = getenv("CC");
    *command = (struct command_words){.compiler = must_strdup(compiler && *compiler ? compiler : "cc")};
    char *rest = command->compiler;
    for (char *word; (word = strsep(&rest, " \t"));)
        if (*word) add_word(command, word);
    for (int i = 0; i < FLAGS; i++) add_word(command, flags[i]);
    for (int i = 0; i < source->macro_count; i++) add_word(command, source->macros[i]);
    ADD_WORDS(command, "-I", folder);
}

/* Runs the command. *out: its stdout, of *length bytes (`out` NULL: stdout is this process's); *messages: its stderr,
 * which goes through a file in `folder`, or NULL. The caller frees both. Returns the exit status, 1 after a signal; -1,
 * with errno: the command could not be started. */
static int run_command(struct command_words *command, const char *folder, char **out, size_t *length, char **messages) {
    OWNED char *path = must_printf("%s/messages", folder);
    posix_spawn_file_actions_t actions;
    int ends[2] = {-1, -1}, state = -1;
    pid_t child;
    *messages = NULL;
    if (out && pipe2(ends, O_CLOEXEC) != 0) return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (out) posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    command->words[command->count] = NULL;
    int failure = posix_spawnp(&child, command->words[0], &actions, NULL, command->words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (out) close(ends[1]);
    if (out) *out = file_read_all(ends[0], SIZE_MAX, length);
    if (out) close(ends[0]);
    if (!failure)
        while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
        }
    OWNED_DESCRIPTOR int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) *messages = file_read_all(descriptor, SIZE_MAX, NULL);
    unlink(path);
    if (failure) return errno = failure, -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 1;
}

/* Reports the compiler's messages, from the first error on; `code` -1: that it cannot be run. Returns STATUS_USAGE. */
static enum status fail_compile(const struct cc_source *source, const struct command_words *command, int code,
                                const char *messages, struct error *error) {
    if (code < 0)
        return fail(error, STATUS_USAGE, "%s cannot be compiled: '%s' cannot be run: %s; set CC to another compiler",
                    source->path, command->words[0], strerror(errno));
    const char *first = messages ? strstr(messages, ": undefined reference") : NULL;
    if (!first && messages) first = strstr(messages, "error: ");
    while (first && first > messages && first[-1] != '\n') first--;
    if (!first) first = messages && *messages ? messages : "the compiler failed without a message";
    size_t length = strlen(first);
    while (length > 0 && first[length - 1] == '\n') length--;
    return fail(error, STATUS_USAGE, "%.*s", (int)(length < MAX_MESSAGE ? length : MAX_MESSAGE), first);
}

/* Writes tilerun.h. It declares the kernel too, so that the compiler refuses a definition with other parameters. */
static enum status write_header(const struct cc_source *source, const char *folder, struct error *error) {
    OWNED char *path = must_printf("%s/tilerun.h", folder);
    FILE *to = fopen(path, "w");
    bool good = to && fprintf(to, "%s#ifndef __cplusplus\nint %s(const struct launch *launch);\n#endif\n",
                              embedded_text("tilerun.h"), source->kernel) > 0;
    good = to && fclose(to) == 0 && good;
    return good ? STATUS_OK : fail_write(error, path, errno);
}

/* The key of the cache: the hash of the preprocessed text and of the flags. */
static enum status find_key(const struct cc_source *source, const char *folder, char key[65], struct error *error) {
    FREED_BY(free_command) struct command_words command;
    OWNED char *text = NULL, *messages = NULL;
    size_t length = 0;
    begin_command(source, folder, &command);
    ADD_WORDS(&command, "-E", "-dD", "-P", source->path); /* -P: no line numbers, which name the temporary folder */
    int code = run_command(&command, folder, &text, &length, &messages);
    if (code != 0) return fail_compile(source, &command, code, messages, error);
    const char *compiler = getenv("CC");
    OWNED char *hashed = must_printf("1 %s %s\n", compiler ? compiler : "", source->path);
    size_t head = strlen(hashed);
    hashed = must_realloc(hashed, head + length + 1);
    memcpy(hashed + head, text ? text : "", length);
    sha256_hex(hashed, head + length, key);
    return STATUS_OK;
}

/* Compiles to the shared library `to`; `warnings`: as for cc_compile. */
static enum status compile(const struct cc_source *source, const char *folder, const char *to, char **warnings,
                           struct error *error) {
    FREED_BY(free_command) struct command_words command;
    OWNED char *messages = NULL;
    begin_command(source, folder, &command);
    if (warnings) ADD_WORDS(&command, "-Wall", "-Wextra");
    /* -z defs: an undefined function is an error now, not at the first call. */
    ADD_WORDS(&command, "-shared", "-Wl,-z,defs", "-o", to, source->path, "-lm");
    int code = run_command(&command, folder, NULL, NULL, &messages);
    if (code != 0) return fail_compile(source, &command, code, messages, error);
    if (warnings && messages) must_append(warnings, "%s", messages);
    return STATUS_OK;
}

/* Loads a compiled library, in a rehearsal first, and finds the function. STATUS_USAGE: loading crashes, does not end
 * or ends the process, or the function is missing. */
static enum status load(const struct cc_source *source, const char *path, struct cc_code *code, struct error *error) {
    int code_of_child = rehearse_load(path);
    if (code_of_child == REHEARSE_STOPPED)
        return fail(error, STATUS_INTERRUPTED, "%s: interrupted while its code was loaded", source->path);
    if (code_of_child == REHEARSE_LATE)
        return fail(error, STATUS_USAGE, "%s:1:1: its code did not load in %d s: a constructor does not return",
                    source->path, REHEARSE_LOAD_S);
    if (code_of_child == REHEARSE_EXITED)
        return fail(error, STATUS_USAGE, "%s:1:1: its code ends the process when it is loaded", source->path);
    if (code_of_child < 0)
        return fail(error, STATUS_USAGE, "%s:1:1: its code crashes when it is loaded: %s", source->path,
                    strsignal(-code_of_child));
    code->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!code->library) {
        const char *words = dlerror();
        return fail(error, STATUS_USAGE, "%s:1:1: its code cannot be loaded: %s", source->path, words ? words : path);
    }
    code->function = dlsym(code->library, source->kernel);
    if (code->function) return STATUS_OK;
    return fail(error, STATUS_USAGE, "%s:1:1: it must define the function '%s': int %s(const struct launch *launch)",
                source->path, source->kernel, source->kernel);
}

/* Compiles, loads the code, and puts it into the cache. */
static enum status compile_and_load(const struct cc_source *source, const char *folder, struct cache_entry *entry,
                                    char **warnings, struct cc_code *code, struct error *error) {
    TRY(cache_begin(entry, error));
    TRY(compile(source, folder, entry->temporary, warnings, error));
    TRY(load(source, entry->temporary, code, error));
    cache_put(entry);
    return STATUS_OK;
}

/* Loads the cached code or, if there is none or warnings are wanted, compiles in the temporary folder. */
static enum status compile_in(const struct cc_source *source, const char *folder, char **warnings, struct cc_code *code,
                              struct error *error) {
    char key[65];
    FREED_BY(cache_end) struct cache_entry entry = {.path = NULL};
    struct error stale = {.status = STATUS_OK};
    TRY(write_header(source, folder, error));
    TRY(find_key(source, folder, key, error));
    cache_name(key, "so", &entry);
    if (!warnings && cache_holds(&entry) && load(source, entry.path, code, &stale) == STATUS_OK) return STATUS_OK;
    cc_code_free(code);
    return compile_and_load(source, folder, &entry, warnings, code, error);
}

enum status cc_compile(const struct cc_source *source, char **warnings, struct cc_code *code, struct error *error) {
    *code = (struct cc_code){.library = NULL};
    OWNED char *folder = cache_temporary_folder();
    if (!folder)
        return fail(error, STATUS_IO, "cannot make a temporary folder in TMPDIR, which compiling needs: %s",
                    strerror(errno));
    enum status status = compile_in(source, folder, warnings, code, error);
    OWNED char *header = must_printf("%s/tilerun.h", folder);
    unlink(header);
    rmdir(folder);
    return status;
}

void cc_code_free(struct cc_code *code) {
    if (code->library) dlclose(code->library);
    *code = (struct cc_code){.library = NULL};
}
