/* manual.c - the manual page, in roff. */
#include "../record/environment.h"
#include "help.h"

#include <stdlib.h>
#include <string.h>

/* Prints text escaped for roff: hyphens stay hyphens, which can be searched for, and no line becomes a request. */
static void put_text(const char *text, FILE *to) {
    if (*text == '.' || *text == '\'') fputs("\\&", to);
    for (; *text; text++) {
        if (*text == '-')
            fputs("\\-", to);
        else if (*text == '\\')
            fputs("\\e", to);
        else if (*text == '`')
            fputs("\\(ga", to);
        else if (*text == '\'')
            fputs("\\(aq", to);
        else
            fputc(*text, to);
    }
}

/* The same, with words in capitals in italics: "[OPTION...] JOB". */
static void put_arguments(const char *text, FILE *to) {
    while (*text) {
        unsigned long capitals = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), length = capitals ? capitals : 1;
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (capitals) fputs("\\fI", to);
        put_text(word, to);
        if (capitals) fputs("\\fR", to);
        text += length;
    }
}

static void put_paragraph(const char *text, FILE *to) {
    put_text(text, to);
    fputc('\n', to);
}

/* "tilerun run [OPTION...] JOB", with the command in bold. */
static void put_usage(const struct command *command, FILE *to) {
    char *usage = command_usage(command);
    unsigned long words = strlen("tilerun ") + strlen(command->name);
    fprintf(to, "\\fB%.*s\\fR", (int)words, usage);
    put_arguments(usage + words, to);
    fputc('\n', to);
    free(usage);
}

static void put_option(const struct option_row *row, FILE *to) {
    fputs(".TP\n", to);
    if (row->letter) fprintf(to, "\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", to);
    put_text(row->name, to);
    fputs("\\fR", to);
    if (row->argument) {
        fputc(' ', to);
        put_arguments(row->argument, to);
    }
    fputc('\n', to);
    put_paragraph(row->help, to);
}

static void put_command(const struct command *command, FILE *to) {
    fprintf(to, ".SS %s\n", command->name);
    put_usage(command, to);
    fputs(".PP\n", to);
    put_paragraph(command->summary, to);
    for (const struct option_row *row = command->rows; row->name; row++) put_option(row, to);
    char *paragraph;
    bool apart = true; /* the next paragraph comes after an option or an empty line */
    for (const char *rest = command->description; (paragraph = help_paragraph(&rest));) {
        if (paragraph[0]) {
            fputs(apart ? ".PP\n" : ".br\n", to);
            put_paragraph(paragraph, to);
        }
        apart = !paragraph[0];
        free(paragraph);
    }
}

static const struct {
    const char *name, *text;
} environment[] = {
    {"OMP_NUM_THREADS", "The largest number of threads that read, compute and write (default: all cores)."},
    {"SLURM_CPUS_PER_TASK", "The same, set by Slurm. The smaller of the two is used."},
    {"CUDA_VISIBLE_DEVICES", "The GPUs that the program sees; empty: none."},
};

static const struct {
    const char *command, *text;
} examples[] = {
    {"tilerun check job.yaml", "Find all mistakes of a job, each with its line and column."},
    {"tilerun run job.yaml --set n=512,1024", "Sweep a parameter."},
    {"tilerun run job.yaml --resume", "Continue after an interruption or a failed run."},
    {"tilerun show job.h5", "Print the table of a results file again."},
    {"h5dump -d /runs job.h5", "Print the same rows without tilerun."},
};

void manual_print(const struct command *const list[], FILE *to) {
    fputs(".\\\" Made by `tilerun --print-manual`.\n", to);
    fprintf(to, ".TH TILERUN 1 \"\" \"tilerun %s\" \"User Commands\"\n", tilerun_version);
    fputs(".SH NAME\ntilerun \\- batch jobs of matrix operations on GPUs, from HDF5 to HDF5\n.SH SYNOPSIS\n", to);
    for (int i = 0; list[i]; i++) {
        put_usage(list[i], to);
        fputs(".br\n", to);
    }
    fputs("\\fBtilerun help\\fR [\\fICOMMAND\\fR]\n.br\n\\fBtilerun \\-\\-version\\fR\n.SH DESCRIPTION\n", to);
    put_paragraph(PROGRAM_SUMMARY, to);
    fputs(".PP\nA job file says which arrays to read, what to compute and with which kernel variants; its keys are "
          "described\n"
          "in configs/README.md, which is installed in share/tilerun beside bin.\n"
          "Results go to standard output, everything else to standard error.\n.SH COMMANDS\n",
          to);
    for (int i = 0; list[i]; i++) put_command(list[i], to);
    fputs(".SH EXIT STATUS\n", to);
    for (const struct exit_code *row = exit_codes; row->meaning; row++) {
        fprintf(to, ".TP\n.B %d\n", row->code);
        put_paragraph(row->meaning, to);
    }
    fputs(".SH ENVIRONMENT\n", to);
    for (unsigned long i = 0; i < sizeof environment / sizeof environment[0]; i++) {
        fprintf(to, ".TP\n.B %s\n", environment[i].name);
        put_paragraph(environment[i].text, to);
    }
    fputs(".SH EXAMPLES\n", to);
    for (unsigned long i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        fputs(".TP\n\\fB", to);
        put_text(examples[i].command, to);
        fputs("\\fR\n", to);
        put_paragraph(examples[i].text, to);
    }
    fputs(".SH SEE ALSO\n.BR h5dump (1),\n.BR h5ls (1),\n.BR h5diff (1)\n", to);
}
