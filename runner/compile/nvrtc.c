/* nvrtc.c - compiles a source with NVRTC, and finds the position of the first error in its log. */
#include "nvrtc.h"

#include "../../kernels/map/cuda_text.h"
#include "../base/fail.h"
#include "nvrtc_library.h"

#include <stdlib.h>
#include <string.h>

#define LOG_INDENT 2 /* spaces that NVRTC puts before the source line and the caret */

/* Reports that there is no NVRTC. Returns STATUS_DEVICE. */
static enum status fail_absent(struct error *error) {
    return fail(
        error, STATUS_DEVICE,
        "NVRTC, which compiles CUDA C at run time, cannot be opened; set CUDA_HOME or LD_LIBRARY_PATH. Tried: %s",
        nvrtc_library()->tried);
}

const char *nvrtc_identity(struct error *error) {
    if (nvrtc_library()->found) return nvrtc_library()->identity;
    fail_absent(error);
    return NULL;
}

const char *nvrtc_include_folder(void) {
    return nvrtc_library()->include[0] ? nvrtc_library()->include : NULL;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static int line_length(const char *line) {
    return (int)strcspn(line, "\n");
}

static const char *next_line(const char *line) {
    line += line_length(line);
    return *line ? line + 1 : line;
}

static const char *const error_kinds[] = {": error: ", ": catastrophic error: ", ": fatal error: ", NULL};
static const char *const warning_kinds[] = {": warning ", NULL};

/* A line "FILE(NUMBER): error: MESSAGE" of a log, with the source line and the caret that follow it. */
struct compiler_message {
    const char *file, *message, *code;
    int file_length, column; /* column 0: not known */
    long number;
};

/* Does a line have the form of a compiler_message, with one of `kinds` (ends at NULL)? Then fills the diagnostic. */
static bool read_diagnostic(const char *line, const char *const *kinds, struct compiler_message *diagnostic) {
    const char *end = line + line_length(line);
    for (; *kinds; kinds++) {
        const char *kind = strstr(line, *kinds);
        if (!kind || kind >= end || kind == line || kind[-1] != ')') continue;
        const char *open = kind - 1, *message = kind + strlen(*kinds), *code = next_line(message);
        while (open > line && *open != '(') open--;
        const char *caret = next_line(code);
        int blanks = (int)strspn(caret, " ");
        bool pointed = line_length(caret) == blanks + 1 && caret[blanks] == '^' && blanks >= LOG_INDENT;
        *diagnostic = (struct compiler_message){
            line, message, code, (int)(open - line), pointed ? blanks - LOG_INDENT + 1 : 0, strtol(open + 1, NULL, 10)};
        return true;
    }
    return false;
}

/* "FILE:LINE:COLUMN: KIND MESSAGE", the source line and a caret; `kind`: "" or "warning ". The caller frees. */
static char *diagnostic_text(const struct compiler_message *diagnostic, const char *kind) {
    char *text = must_printf("%.*s:%ld:", diagnostic->file_length, diagnostic->file, diagnostic->number);
    if (diagnostic->column) must_append(&text, "%d:", diagnostic->column);
    must_append(&text, " %s%.*s", kind, line_length(diagnostic->message), diagnostic->message);
    if (diagnostic->column)
        must_append(&text, "\n  %.*s\n  %*s^", line_length(diagnostic->code), diagnostic->code,
                    diagnostic->column - 1 + LOG_INDENT, "");
    return text;
}

/* Reports the first error of a log at its position. Returns STATUS_USAGE. */
static enum status fail_located(const struct nvrtc_source *source, const char *log, struct error *error) {
    struct compiler_message diagnostic = {.file = NULL};
    for (const char *line = log; *line && !diagnostic.file; line = next_line(line))
        read_diagnostic(line, error_kinds, &diagnostic);
    if (!diagnostic.file) return fail(error, STATUS_USAGE, "%s cannot be compiled: %s", source->name, log);
    if (strncmp(diagnostic.file, "__nv_name_map(", 14) == 0)
        return fail(error, STATUS_USAGE, "%s:1:1: it defines no kernel (__global__ function) called '%s'", source->name,
                    source->kernel);
    bool headers = !strstr(diagnostic.message, "open source file") || nvrtc_include_folder();
    OWNED char *text = diagnostic_text(&diagnostic, "");
    return fail(error, STATUS_USAGE, "%s%s", text,
                headers ? "" : "\nno headers of the CUDA toolkit were found: set CUDA_HOME");
}

void nvrtc_warnings(const char *log, char **warnings) {
    struct compiler_message diagnostic;
    for (const char *line = log; *line; line = next_line(line)) {
        if (!read_diagnostic(line, warning_kinds, &diagnostic)) continue;
        OWNED char *text = diagnostic_text(&diagnostic, "warning ");
        must_append(warnings, "%s\n", text);
    }
}

/* ---- one compilation --------------------------------------------------------------------------------------------- */

/* Reports a failed call of NVRTC. */
static enum status check(int result, const char *call, struct error *error) {
    if (result == NVRTC_SUCCESS) return STATUS_OK;
    return FAIL_CALL(error, STATUS_DEVICE, call, nvrtc_library()->error_text(result));
}

/* Sets cubin->log to the program's log. */
static void keep_log(void *program, struct cubin *cubin) {
    size_t size = 0;
    free(cubin->log);
    cubin->log = NULL;
    if (nvrtc_library()->log_size(program, &size) == NVRTC_SUCCESS && size > 0) {
        cubin->log = must_malloc(size);
        if (nvrtc_library()->log(program, cubin->log) != NVRTC_SUCCESS) cubin->log[0] = '\0';
    }
    if (!cubin->log) cubin->log = must_strdup("");
}

/* Sets the code and the kernel's name inside it. */
static enum status keep_code(void *program, const struct nvrtc_source *source, struct cubin *cubin,
                             struct error *error) {
    const struct nvrtc_library *nvrtc = nvrtc_library();
    const char *lowered;
    if (source->kernel) {
        TRY(check(nvrtc->lowered_name(program, source->kernel, &lowered), "nvrtcGetLoweredName", error));
        cubin->kernel = must_strdup(lowered);
    }
    TRY(check(nvrtc->cubin_size(program, &cubin->size), "nvrtcGetCUBINSize", error));
    cubin->bytes = must_malloc(cubin->size);
    return check(nvrtc->cubin(program, cubin->bytes), "nvrtcGetCUBIN", error);
}

/* Compiles for one architecture. If NVRTC does not know it, sets *known to false and reports no error. */
static enum status compile_for(const struct nvrtc_source *source, const char *suffix, struct cubin *cubin, bool *known,
                               struct error *error) {
    const struct nvrtc_library *nvrtc = nvrtc_library();
    char architecture[48], include[600], cccl[600];
    const char *options[NVRTC_MAX_OPTIONS + 4] = {architecture};
    int count = 1;
    void *program = NULL;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d%s", source->capability, suffix);
    for (int i = 0; i < source->option_count; i++) options[count++] = source->options[i];
    if (nvrtc_include_folder()) {
        snprintf(include, sizeof include, "--include-path=%s", nvrtc_include_folder());
        snprintf(cccl, sizeof cccl, "--include-path=%s/cccl", nvrtc_include_folder()); /* of CUDA 13 */
        options[count++] = include;
        options[count++] = cccl;
    }
    TRY(check(nvrtc->create(&program, source->text, source->name, source->header_count, source->header_texts,
                            source->header_names),
              "nvrtcCreateProgram", error));
    if (source->kernel) nvrtc->add_name(program, source->kernel);
    int result = nvrtc->compile(program, count, options);
    keep_log(program, cubin);
    *known = !(result == NVRTC_ERROR_INVALID_OPTION && strstr(cubin->log, "gpu-architecture"));
    enum status status = STATUS_OK;
    if (result == NVRTC_SUCCESS)
        status = keep_code(program, source, cubin, error);
    else if (result == NVRTC_ERROR_COMPILATION)
        status = fail_located(source, cubin->log, error);
    else if (*known)
        status = fail(error, STATUS_USAGE, "%s cannot be compiled: %s: %s", source->name, nvrtc->error_text(result),
                      cubin->log);
    nvrtc->destroy(&program);
    return status;
}

enum status nvrtc_compile(const struct nvrtc_source *source, struct cubin *cubin, struct error *error) {
    *cubin = (struct cubin){.bytes = NULL};
    if (!nvrtc_library()->found) return fail_absent(error);
    bool known = false;
    /* From 9.0 on there are instructions for one architecture only, such as wgmma; they need the name 9.0a. */
    if (source->capability >= 90) TRY(compile_for(source, "a", cubin, &known, error));
    if (!known) TRY(compile_for(source, "", cubin, &known, error));
    if (known) return STATUS_OK;
    return fail(error, STATUS_DEVICE, "%s knows no GPU of compute capability %d.%d: a newer CUDA toolkit is needed",
                nvrtc_library()->identity, source->capability / 10, source->capability % 10);
}

void cubin_free(struct cubin *cubin) {
    free(cubin->bytes);
    free(cubin->kernel);
    free(cubin->log);
    *cubin = (struct cubin){.bytes = NULL};
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* Compiles and loads a map's kernel; for map_compiler. */
static enum status compile_map(const char *text, int capability, struct loaded_kernel *loaded, struct error *error) {
    const struct nvrtc_source source = {
        .name = "map.cu", .text = text, .options = {"--fmad=false"}, .option_count = 1, .capability = capability};
    FREED_BY(cubin_free) struct cubin cubin = {0};
    TRY(nvrtc_compile(&source, &cubin, error));
    return loaded_open(cubin.bytes, cubin.size, "map", loaded, error);
}

/* Why maps cannot be compiled; NULL: they can. */
static const char *missing(void) {
    static char text[sizeof((struct error *)0)->text];
    struct error error = {0};
    if (nvrtc_identity(&error)) return NULL;
    snprintf(text, sizeof text, "%s", error.text);
    return text;
}

void map_compile_provide(void) {
    static const struct map_compiler compiler = {compile_map, missing};
    map_compiler = &compiler;
}
