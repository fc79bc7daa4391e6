/* manual.c - `tilerun --print-manual`: the manual page, made from the commands' own help texts. */
#include "../record/environment.h"
#include "help.h"

#include <ctype.h>
#include <string.h>

/* Prints text as roff has it: hyphens that can be searched for and copied, no line taken for a request. */
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
        char piece[64];
        snprintf(piece, sizeof piece, "%.*s", (int)length, text);
        if (capitals) fputs("\\fI", to);
        put_text(piece, to);
        if (capitals) fputs("\\fR", to);
        text += length;
    }
}

static void put_paragraph(const char *text, FILE *to) {
    put_text(text, to);
    fputc('\n', to);
}

static void put_usage(const struct command *command, FILE *to) {
    fprintf(to, "\\fBtilerun %s\\fR%s", command->name, command->arguments[0] ? " " : "");
    put_arguments(command->arguments, to);
    fputc('\n', to);
}

static void put_option(const struct help_entry *entry, FILE *to) {
    fputs(".TP\n", to);
    if (entry->letter) fprintf(to, "\\fB\\-%c\\fR, ", entry->letter);
    fputs("\\fB\\-\\-", to);
    put_text(entry->name, to);
    fputs("\\fR", to);
    if (entry->value[0]) {
        fputc(' ', to);
        put_arguments(entry->value, to);
    }
    fputc('\n', to);
    put_paragraph(entry->text, to);
}

static void put_command(const struct command *command, FILE *to) {
    fprintf(to, ".SS %s\n", command->name);
    put_usage(command, to);
    fputs(".PP\n", to);
    char summary[512];
    snprintf(summary, sizeof summary, "%c%s.", toupper((unsigned char)command->summary[0]), command->summary + 1);
    put_paragraph(summary, to);
    bool begins = true; /* the next paragraph comes after an option or an empty line */
    struct help_entry entry;
    for (const char *help = command->help; help_next(&help, &entry);) {
        if (entry.name[0]) {
            put_option(&entry, to);
        } else if (entry.text[0]) {
            fputs(begins ? ".PP\n" : ".br\n", to);
            put_paragraph(entry.text, to);
        }
        begins = entry.name[0] || !entry.text[0];
    }
}

static const struct {
    const char *name, *text;
} environment[] = {
    {"OMP_NUM_THREADS", "At most so many threads read, compute and write; all cores by default."},
    {"SLURM_CPUS_PER_TASK", "The same, as Slurm sets it; the smaller of the two counts."},
    {"CUDA_VISIBLE_DEVICES", "Which GPUs the program sees; none where it is empty."},
};

static const struct {
    const char *command, *text;
} examples[] = {
    {"tilerun check job.yaml", "Find all mistakes of a job, each with its place."},
    {"tilerun run job.yaml --set n=512,1024", "Sweep a parameter."},
    {"tilerun run job.yaml --resume", "Go on after an interruption, or after a run that failed."},
    {"tilerun show job.h5", "Print the table of a results file again."},
    {"h5dump -d /runs job.h5", "Look at the same rows without tilerun."},
};

void manual_print(const struct program *program, FILE *to) {
    fputs(".\\\" Made by `tilerun --print-manual`.\n", to);
    fprintf(to, ".TH TILERUN 1 \"\" \"tilerun %s\" \"User Commands\"\n", tilerun_version);
    fputs(".SH NAME\ntilerun \\- batch jobs of matrix operations on GPUs, from HDF5 to HDF5\n.SH SYNOPSIS\n", to);
    for (int i = 0; i < program->command_count; i++) {
        if (i) fputs(".br\n", to);
        put_usage(program->commands[i], to);
    }
    fputs(".br\n\\fBtilerun help\\fR [\\fICOMMAND\\fR]\n.br\n\\fBtilerun \\-\\-version\\fR\n.SH DESCRIPTION\n", to);
    put_paragraph(program->summary, to);
    fputs(".PP\nA job file says which arrays to read, what to compute and with which kernel variants; its keys are "
          "described\n"
          "in configs/README.md, which is installed in share/tilerun beside bin.\n"
          "Results go to standard output, everything else to standard error.\n.SH COMMANDS\n",
          to);
    for (int i = 0; i < program->command_count; i++) put_command(program->commands[i], to);
    fputs(".SH EXIT STATUS\n", to);
    for (int i = 0; i < program->exit_code_count; i++) {
        fprintf(to, ".TP\n.B %d\n", program->exit_codes[i].code);
        put_paragraph(program->exit_codes[i].meaning, to);
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
