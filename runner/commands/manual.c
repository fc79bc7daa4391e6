/* manual.c - prints the manual page, in roff. */
#include "../record/environment.h"
#include "help.h"

#include <stdlib.h>
#include <string.h>

/* Prints text escaped for roff: hyphens stay ASCII, so that a reader can search for options, and no line becomes a roff
 * request. */
static void print_text(const char *text, FILE *to) {
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

/* Like print_text, but prints words in capitals in italics: "[OPTION...] JOB". */
static void print_arguments(const char *text, FILE *to) {
    while (*text) {
        unsigned long capitals = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), length = capitals ? capitals : 1;
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (capitals) fputs("\\fI", to);
        print_text(word, to);
        if (capitals) fputs("\\fR", to);
        text += length;
    }
}

static void print_paragraph(const char *text, FILE *to) {
    print_text(text, to);
    fputc('\n', to);
}

/* Prints "tilerun run [OPTION...] JOB", with the command in bold. */
static void print_usage(const struct command *command, FILE *to) {
    OWNED char *usage = command_usage(command);
    unsigned long words = strlen("tilerun ") + strlen(command->name);
    fprintf(to, "\\fB%.*s\\fR", (int)words, usage);
    print_arguments(usage + words, to);
    fputc('\n', to);
}

/* Prints an option's names and argument in bold and italics, and its help. */
static void print_option(const struct option_row *row, FILE *to) {
    fputs(".TP\n", to);
    if (row->letter) fprintf(to, "\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", to);
    print_text(row->name, to);
    fputs("\\fR", to);
    if (row->argument) {
        fputc(' ', to);
        print_arguments(row->argument, to);
    }
    fputc('\n', to);
    print_paragraph(row->help, to);
}

/* Prints a command's section: usage, summary, options and description. */
static void print_command(const struct command *command, FILE *to) {
    fprintf(to, ".SS %s\n", command->name);
    print_usage(command, to);
    fputs(".PP\n", to);
    print_paragraph(command->summary, to);
    for (const struct option_row *row = command->rows; row->name; row++) print_option(row, to);
    char *paragraph;
    bool begins_block = true; /* the next paragraph comes after an option or an empty line */
    for (const char *rest = command->description; (paragraph = help_paragraph(&rest));) {
        if (paragraph[0]) {
            fputs(begins_block ? ".PP\n" : ".br\n", to);
            print_paragraph(paragraph, to);
        }
        begins_block = !paragraph[0];
        free(paragraph);
    }
}

struct manual_entry {
    const char *name, *text;
};

/* All variables that the program reads; environment_recorded names those that it only records. */
static const struct manual_entry environment[] = {
    {"OMP_NUM_THREADS", "The largest number of threads that read, compute and write (default: all cores)."},
    {"SLURM_CPUS_PER_TASK", "Slurm's limit of these threads. The smaller of the two is used."},
    {"CUDA_VISIBLE_DEVICES", "The GPUs that the program sees; empty: none."},
    {"SLURM_ARRAY_TASK_ID, SLURM_ARRAY_TASK_MIN, SLURM_ARRAY_TASK_MAX, SLURM_ARRAY_TASK_COUNT, SLURM_ARRAY_TASK_STEP",
     "The shard of `run --shard auto` in a Slurm array."},
    {"SLURM_PROCID, SLURM_NTASKS, OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, PMI_RANK, PMI_SIZE",
     "The shard of `run --shard auto` in a Slurm step, under Open MPI and under PMI."},
    {"SLURM_JOB_ID, SLURM_ARRAY_JOB_ID", "Name this process in logs and to processes that wait for its lock."},
    {"TILERUN_BLAS", "The library of matmul's variant blas (default: OpenBLAS, MKL, BLIS or libblas.so.3)."},
    {"TILERUN_LOG", "The file where a shard's messages end, which show names. The Slurm scripts set it."},
    {"TILERUN_LOAD", "If \"ignore\", no run gets the flag busy, whatever other processes do."},
    {"TILERUN_CPU_DEVICES", "For tests: the CPU appears as this number of devices."},
    {"HDF5_EXT_PREFIX, HDF5_VDS_PREFIX, HDF5_EXTFILE_PREFIX",
     "HDF5's folders of files that external links, virtual data sets and external storage name."},
    {"TMPDIR", "Where reproduce puts temporary results if the folder of RESULTS is read-only, and kernels of a job are "
               "compiled (default: /tmp)."},
    {"COLUMNS", "The width of tables (default: the terminal's; in a file or pipe as wide as needed)."},
    {"TERM", "If \"dumb\", progress is printed as plain lines."},
    {"LC_ALL, LC_CTYPE, LANG", "The first that is set: if it names UTF-8, tables print UTF-8, else ASCII."},
    {"TILERUN_ALLOW_SOURCE", "If 1, jobs with `source:` may compile and run code of their own, as by --allow-source."},
    {"CC", "The compiler of kernels in .c files of a job (default: cc)."},
    {"CUDA_HOME", "The CUDA toolkit whose NVRTC compiles kernels in .cu files (default: where the linker looks)."},
    {"XDG_CACHE_HOME, HOME",
     "The folder of measured limits and compiled kernels; see FILES. HOME is also `~` in a job's paths."},
};

static const struct manual_entry files[] = {
    {"NAME.h5", "The results of NAME.yaml, in the current folder, unless -o or the job's `output` names another file."},
    {"NAME.h5.parts/", "Finished runs, until NAME.h5 is complete; --resume and merge read them."},
    {"$XDG_CACHE_HOME/tilerun/*.limits", "Measured limits of this host's devices (default folder: $HOME/.cache); "
                                         "`tilerun devices --measure` renews them."},
    {"$XDG_CACHE_HOME/tilerun/*.so, *.cubin", "Compiled kernels of jobs; they can be removed at any time."},
    {"PREFIX/share/tilerun/configs/", "Job files, the reference of their keys, the Slurm scripts."},
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

static void print_entries(const struct manual_entry *entries, unsigned long count, FILE *to) {
    for (unsigned long i = 0; i < count; i++) {
        fputs(".TP\n.B ", to);
        print_paragraph(entries[i].name, to);
        print_paragraph(entries[i].text, to);
    }
}

void manual_print(const struct command *const list[], FILE *to) {
    fputs(".\\\" Made by `tilerun --print-manual`.\n", to);
    fprintf(to, ".TH TILERUN 1 \"\" \"tilerun %s\" \"User Commands\"\n", tilerun_version);
    fputs(".SH NAME\ntilerun \\- batch jobs of matrix operations on GPUs, from HDF5 to HDF5\n.SH SYNOPSIS\n", to);
    for (int i = 0; list[i]; i++) {
        print_usage(list[i], to);
        fputs(".br\n", to);
    }
    fputs("\\fBtilerun help\\fR [\\fICOMMAND\\fR]\n.br\n\\fBtilerun \\-\\-version\\fR\n.SH DESCRIPTION\n", to);
    print_paragraph(PROGRAM_SUMMARY, to);
    fputs(".PP\nA job file says which arrays to read, what to compute and with which kernel variants; its keys are "
          "described\n"
          "in configs/README.md, which is installed in share/tilerun beside bin.\n"
          "Results go to standard output, everything else to standard error.\n.SH COMMANDS\n",
          to);
    for (int i = 0; list[i]; i++) print_command(list[i], to);
    fputs(".SH EXIT STATUS\n", to);
    for (const struct exit_code *row = exit_codes; row->meaning; row++) {
        fprintf(to, ".TP\n.B %d\n", row->code);
        print_paragraph(row->meaning, to);
    }
    fputs(".SH ENVIRONMENT\n", to);
    print_entries(environment, sizeof environment / sizeof *environment, to);
    for (int i = 0; environment_recorded(i); i++)
        fprintf(to, "%s\n.B %s\n", i ? ".TQ" : ".TP", environment_recorded(i));
    print_paragraph("Recorded in the results file.", to);
    fputs(".SH FILES\n", to);
    print_entries(files, sizeof files / sizeof *files, to);
    fputs(".SH EXAMPLES\n", to);
    for (unsigned long i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        fputs(".TP\n\\fB", to);
        print_text(examples[i].command, to);
        fputs("\\fR\n", to);
        print_paragraph(examples[i].text, to);
    }
    fputs(".SH SEE ALSO\n.BR h5dump (1),\n.BR h5ls (1),\n.BR h5diff (1)\n", to);
}
