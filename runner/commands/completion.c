/* completion.c - `tilerun --print-completion SHELL`: completion for bash, zsh and fish, made from the commands' own
 * help texts. */
#include "help.h"

#include <stdlib.h>
#include <string.h>

static const char banner[] = "made by `tilerun --print-completion";

/* ---- words ---- */

/* A text that grows: a shell's words, or patterns of a `case`. */
static void add(char **text, const char *separator, const char *prefix, const char *word) {
    char *longer = must_printf("%s%s%s%s", *text ? *text : "", *text ? separator : "", prefix, word);
    free(*text);
    *text = longer;
}

static char *command_words(const struct program *program) {
    char *words = NULL;
    for (int i = 0; i < program->command_count; i++) add(&words, " ", "", program->commands[i]->name);
    return words;
}

static char *operation_words(void) {
    char *words = NULL;
    for (int i = 0; i < OP_COUNT; i++) add(&words, " ", "", operations[i]->name);
    return words;
}

/* The words that an operand or value of this kind can be; NULL: none are known. The caller frees them. */
static char *kind_words(const struct program *program, enum help_kind kind) {
    if (kind == HELP_OPERATION) return operation_words();
    if (kind == HELP_COMMAND) return command_words(program);
    return NULL;
}

/* The next option among the lines of help. */
static bool next_option(const char **help, struct help_entry *entry) {
    while (help_next(help, entry))
        if (entry->name[0]) return true;
    return false;
}

/* ---- bash ---- */

/* What _tilerun's last part takes from the variable `files`. */
static const char *bash_files(enum help_kind kind) {
    switch (kind) {
    case HELP_JOB: return "yaml yml";
    case HELP_RESULTS: return "h5 hdf5";
    case HELP_FILE: return "any";
    case HELP_FOLDER: return "folders";
    default: return "";
    }
}

static void bash_value(const char *command, const struct help_entry *entry, FILE *to) {
    fprintf(to, "    '%s --%s'", command, entry->name);
    if (entry->letter) fprintf(to, " | '%s -%c'", command, entry->letter);
    fprintf(to, ") words='%s' files='%s' ;;\n", entry->choices, bash_files(help_kind(entry->value)));
}

static void bash_command(const struct program *program, const struct command *command, FILE *to) {
    struct help_entry entry;
    char *options = NULL;
    for (const char *help = command->help; next_option(&help, &entry);) {
        char letter[] = {'-', entry.letter, '\0'};
        if (entry.letter) add(&options, " ", "", letter);
        add(&options, " ", "--", entry.name);
        if (entry.value[0]) bash_value(command->name, &entry, to);
    }
    add(&options, " ", "--", "help");
    enum help_kind kind = help_operand(command);
    char *words = kind_words(program, kind);
    fprintf(to, "    '%s '*) options='%s' words='%s' files='%s' ;;\n", command->name, options, words ? words : "",
            bash_files(kind));
    free(words);
    free(options);
}

static void print_bash(const struct program *program, FILE *to) {
    char *commands = command_words(program);
    fprintf(to,
            "# bash completion of tilerun, %s bash`.\n"
            "_tilerun() {\n"
            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' i suffix\n"
            "    local options='' words='' files=''\n"
            "    # Bash takes `--output=FILE` for three words.\n"
            "    if [[ $word == '=' ]]; then\n"
            "        word=''\n"
            "    elif [[ $before == '=' ]]; then\n"
            "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
            "    fi\n"
            "    ((COMP_CWORD < 2)) || command=${COMP_WORDS[1]}\n"
            "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
            "        [[ ${COMP_WORDS[i]} != -- ]] || before=-- # files follow\n"
            "    done\n"
            "    case \"$command $before\" in\n"
            "    ' '*) words='%s help' options='--help --version' ;;\n"
            "    'help '*) words='%s' ;;\n",
            banner, commands, commands);
    for (int i = 0; i < program->command_count; i++) bash_command(program, program->commands[i], to);
    fprintf(to, "    esac\n"
                "    if [[ $word == -* && $before != -- && $options ]]; then words=$options files=''; fi\n"
                "    COMPREPLY=()\n"
                "    [[ ! $words ]] || mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
                "    [[ $files ]] || return 0\n"
                "    compopt -o filenames -o default 2> /dev/null\n"
                "    mapfile -t COMPREPLY < <({\n"
                "        compgen -d -- \"$word\"\n"
                "        case $files in\n"
                "        any) compgen -f -- \"$word\" ;;\n"
                "        folders) ;;\n"
                "        *) for suffix in $files; do compgen -f -X \"!*.$suffix\" -- \"$word\"; done ;;\n"
                "        esac\n"
                "    } | sort -u)\n"
                "}\n"
                "complete -F _tilerun tilerun\n");
    free(commands);
}

/* ---- zsh ---- */

/* Prints text for a specification in single quotes: brackets and colons have a meaning there. */
static void zsh_text(const char *text, FILE *to) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", to);
        else
            fprintf(to, strchr("[]:\\", *text) ? "\\%c" : "%c", *text);
    }
}

static void zsh_action(const struct program *program, enum help_kind kind, const char *choices, FILE *to) {
    char *words = kind_words(program, kind);
    if (choices[0] || words)
        fprintf(to, "(%s)", choices[0] ? choices : words);
    else if (kind == HELP_JOB)
        fputs("_files -g \"*.(yaml|yml)(-.)\"", to);
    else if (kind == HELP_RESULTS)
        fputs("_files -g \"*.(h5|hdf5)(-.)\"", to);
    else if (kind == HELP_FILE)
        fputs("_files", to);
    else if (kind == HELP_FOLDER)
        fputs("_files -/", to);
    else
        fputc(' ', to);
    free(words);
}

static void zsh_option(const struct program *program, const struct help_entry *entry, FILE *to) {
    const char *equals = entry->value[0] ? "=" : "", *plus = entry->value[0] ? "+" : "";
    fputs(" \\\n            ", to);
    if (entry->letter)
        fprintf(to, "'(-%c --%s)'{-%c%s,--%s%s}'[", entry->letter, entry->name, entry->letter, plus, entry->name,
                equals);
    else
        fprintf(to, "'%s--%s%s[", entry->repeatable ? "*" : "", entry->name, equals);
    zsh_text(entry->text, to);
    fputc(']', to);
    if (entry->value[0]) {
        fputc(':', to);
        zsh_text(entry->value, to);
        fputc(':', to);
        zsh_action(program, help_kind(entry->value), entry->choices, to);
    }
    fputc('\'', to);
}

static void zsh_command(const struct program *program, const struct command *command, FILE *to) {
    fprintf(to, "        %s)\n            _arguments -S", command->name);
    struct help_entry entry;
    for (const char *help = command->help; next_option(&help, &entry);) zsh_option(program, &entry, to);
    fputs(" \\\n            '(- *)'{-h,--help}'[what the command does, and its options]'", to);
    enum help_kind kind = help_operand(command);
    if (kind) {
        fputs(" \\\n            '*: :", to);
        zsh_action(program, kind, "", to);
        fputc('\'', to);
    }
    fputs(" ;;\n", to);
}

static void print_zsh(const struct program *program, FILE *to) {
    char *commands = command_words(program);
    fprintf(to, "#compdef tilerun\n# zsh completion of tilerun, %s zsh`.\n_tilerun() {\n", banner);
    fputs("    local curcontext=$curcontext state line\n    local -a commands\n    commands=(\n", to);
    for (int i = 0; i < program->command_count; i++) {
        fprintf(to, "        '%s:", program->commands[i]->name);
        zsh_text(program->commands[i]->summary, to);
        fputs("'\n", to);
    }
    fprintf(to,
            "        'help:what the program or a command does'\n    )\n"
            "    _arguments -C '(- *)'{-h,--help}'[what the program does]' '(- *)--version[what it is built from]' \\\n"
            "        '1:command:->command' '*::argument:->argument' && return\n"
            "    case $state in\n"
            "    command) _describe command commands ;;\n"
            "    argument)\n"
            "        case $line[1] in\n"
            "        help) _arguments '1:command:(%s)' ;;\n",
            commands);
    for (int i = 0; i < program->command_count; i++) zsh_command(program, program->commands[i], to);
    fputs("        esac ;;\n    esac\n}\n"
          "if [ \"$funcstack[1]\" = _tilerun ]; then _tilerun \"$@\"; else compdef _tilerun tilerun; fi\n",
          to);
    free(commands);
}

/* ---- fish ---- */

static void fish_text(const char *text, FILE *to) {
    fputc('\'', to);
    for (; *text; text++) fprintf(to, strchr("'\\", *text) ? "\\%c" : "%c", *text);
    fputc('\'', to);
}

static void fish_begin(const char *command, FILE *to) {
    fprintf(to, "complete -c tilerun -n 'contains -- %s (commandline -opc)[2]'", command);
}

static void fish_values(const struct program *program, enum help_kind kind, const char *choices, FILE *to) {
    char *words = kind_words(program, kind);
    if (choices[0] || words)
        fprintf(to, " -a '%s'", choices[0] ? choices : words);
    else if (kind == HELP_JOB)
        fputs(" -k -a '(__fish_complete_suffix .yaml; __fish_complete_suffix .yml)'", to);
    else if (kind == HELP_RESULTS)
        fputs(" -k -a '(__fish_complete_suffix .h5)'", to);
    else if (kind == HELP_FOLDER)
        fputs(" -a '(__fish_complete_directories)'", to);
    else if (kind == HELP_FILE)
        fputs(" -F", to);
    free(words);
}

static void fish_command(const struct program *program, const struct command *command, FILE *to) {
    struct help_entry entry;
    for (const char *help = command->help; next_option(&help, &entry);) {
        fish_begin(command->name, to);
        if (entry.letter) fprintf(to, " -s %c", entry.letter);
        fprintf(to, " -l %s", entry.name);
        if (entry.value[0]) {
            enum help_kind kind = help_kind(entry.value);
            fputs(kind == HELP_FILE ? " -r" : " -x", to);
            fish_values(program, kind, entry.choices, to);
        }
        fputs(" -d ", to);
        fish_text(entry.text, to);
        fputc('\n', to);
    }
    enum help_kind kind = help_operand(command);
    if (kind) {
        fish_begin(command->name, to);
        fish_values(program, kind, "", to);
        fputc('\n', to);
    }
}

static void print_fish(const struct program *program, FILE *to) {
    char *commands = command_words(program);
    fprintf(to,
            "# fish completion of tilerun, %s fish`.\n"
            "complete -c tilerun -f\n"
            "complete -c tilerun -s h -l help -d 'What the program or a command does'\n"
            "complete -c tilerun -n __fish_is_first_token -l version -d 'What it is built from'\n"
            "complete -c tilerun -n __fish_is_first_token -a help -d 'What the program or a command does'\n",
            banner);
    for (int i = 0; i < program->command_count; i++) {
        fprintf(to, "complete -c tilerun -n __fish_is_first_token -a %s -d ", program->commands[i]->name);
        fish_text(program->commands[i]->summary, to);
        fputc('\n', to);
    }
    fish_begin("help", to);
    fprintf(to, " -a '%s'\n", commands);
    for (int i = 0; i < program->command_count; i++) fish_command(program, program->commands[i], to);
    free(commands);
}

enum status completion_print(const struct program *program, const char *shell, FILE *to, struct error *error) {
    static const struct {
        const char *shell;
        void (*print)(const struct program *, FILE *);
    } printers[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (unsigned long i = 0; i < sizeof printers / sizeof printers[0]; i++)
        if (strcmp(printers[i].shell, shell) == 0) return printers[i].print(program, to), STATUS_OK;
    return fail(error, STATUS_USAGE, "--print-completion is for bash, zsh or fish, not '%s'", shell);
}
