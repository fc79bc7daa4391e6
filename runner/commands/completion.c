/* completion.c - `tilerun --print-completion SHELL`: the completion scripts of bash, zsh and fish. */
#include "help.h"

#include <string.h>

static const char banner[] = "made by `tilerun --print-completion"; /* "... SHELL`" follows */

/* The code by which each shell completes a kind of word; "": the shell does not. bash: the value of `files` in
 * _tilerun. */
static const struct {
    const char *bash, *zsh, *fish;
} actions[] = {
    [WORD_OTHER] = {"", " ", ""},
    [WORD_JOB] = {"yaml yml", "_files -g \"*.(yaml|yml)(-.)\"",
                  " -k -a '(__fish_complete_suffix .yaml; __fish_complete_suffix .yml)'"},
    [WORD_RESULTS] = {"h5 hdf5", "_files -g \"*.(h5|hdf5)(-.)\"", " -k -a '(__fish_complete_suffix .h5)'"},
    [WORD_FILE] = {"any", "_files", " -F"},
    [WORD_FOLDER] = {"folders", "_files -/", " -a '(__fish_complete_directories)'"},
    [WORD_OPERATION] = {"", " ", ""},
};

/* ---- words ---- */

/* Appends a word to a list that spaces separate. */
static void add_word(char **text, const char *prefix, const char *word) {
    must_append(text, "%s%s%s", **text ? " " : "", prefix, word);
}

static char *command_words(const struct command *const list[]) {
    char *words = must_strdup("");
    for (; *list; list++) add_word(&words, "", (*list)->name);
    return words;
}

/* The words that an operand or an argument can be; "": unknown. The caller frees. */
static char *known_words(enum word_kind kind, const char *const *choices) {
    char *words = must_strdup("");
    for (int i = 0; kind == WORD_OPERATION && i < OP_COUNT; i++) add_word(&words, "", operations[i]->name);
    for (; choices && *choices; choices++) add_word(&words, "", *choices);
    return words;
}

/* Prints the known words between two texts; if there are none, `action`. */
static void print_words(enum word_kind kind, const char *const *choices, const char *before, const char *after,
                        const char *action, FILE *to) {
    OWNED char *words = known_words(kind, choices);
    if (*words)
        fprintf(to, "%s%s%s", before, words, after);
    else
        fputs(action, to);
}

/* ---- bash ---- */

/* Prints the case of _tilerun in which words may be these options, known words or files. */
static void bash_case(const char *pattern, const char *options, enum word_kind kind, const char *const *choices,
                      FILE *to) {
    OWNED char *words = known_words(kind, choices);
    fprintf(to, "    %s) options='%s' words='%s' files='%s' ;;\n", pattern, options, words, actions[kind].bash);
}

/* Writes the cases of a command for bash: the words after each option with an argument, and after the command
 * itself. */
static void bash_command(const struct command *command, FILE *to) {
    OWNED char *options = must_strdup("");
    for (const struct option_row *row = command->rows; row->name; row++) {
        char letter[] = {row->letter, '\0'};
        if (row->letter) add_word(&options, "-", letter);
        add_word(&options, "--", row->name);
        if (!row->argument) continue;
        OWNED char *pattern =
            row->letter ? must_printf("'%s --%s' | '%s -%c'", command->name, row->name, command->name, row->letter)
                        : must_printf("'%s --%s'", command->name, row->name);
        bash_case(pattern, "", row->kind, row->choices, to);
    }
    add_word(&options, "--", "help");
    OWNED char *pattern = must_printf("'%s '*", command->name);
    bash_case(pattern, options, command->operands.kind, NULL, to);
}

/* Prints the script for bash: a case of each command and option sets `options`, `words` and `files`, the proposals. */
static void print_bash(const struct command *const list[], FILE *to) {
    OWNED char *names = command_words(list);
    fprintf(to,
            "# bash completion of tilerun, %s bash`.\n"
            "_tilerun() {\n"
            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' i suffix\n"
            "    local options='' words='' files=''\n"
            "    # Bash splits `--output=FILE` into three words.\n"
            "    if [[ $word == '=' ]]; then\n"
            "        word=''\n"
            "    elif [[ $before == '=' ]]; then\n"
            "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
            "    fi\n"
            "    ((COMP_CWORD < 2)) || command=${COMP_WORDS[1]}\n"
            "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
            "        [[ ${COMP_WORDS[i]} != -- ]] || before=-- # operands follow\n"
            "    done\n"
            "    case \"$command $before\" in\n"
            "    ' '*) words='%s help' options='--help --version' ;;\n"
            "    'help '*) words='%s' ;;\n",
            banner, names, names);
    for (; *list; list++) bash_command(*list, to);
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
}

/* ---- zsh ---- */

/* Prints text for a specification in single quotes, in which brackets and colons have a meaning. */
static void zsh_text(const char *text, FILE *to) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", to);
        else
            fprintf(to, strchr("[]:\\", *text) ? "\\%c" : "%c", *text);
    }
}

/* Writes an option as zsh's _arguments takes it: '(-o --output)'{-o+,--output=}'[help]:FILE:_files'. */
static void zsh_option(const struct option_row *row, FILE *to) {
    const char *equals = row->argument ? "=" : "", *plus = row->argument ? "+" : "";
    fputs(" \\\n            ", to);
    if (row->letter)
        fprintf(to, "'(-%c --%s)'{-%c%s,--%s%s}'[", row->letter, row->name, row->letter, plus, row->name, equals);
    else
        fprintf(to, "'%s--%s%s[", row->parse == option_list ? "*" : "", row->name, equals);
    zsh_text(row->help, to);
    fputc(']', to);
    if (row->argument) {
        fputc(':', to);
        zsh_text(row->argument, to);
        OWNED char *words = known_words(row->kind, row->choices);
        fputs(*words ? ":(" : ":", to);
        zsh_text(words, to);
        fputs(*words ? ")" : actions[row->kind].zsh, to);
    }
    fputc('\'', to);
}

/* Writes the case of a command for zsh: _arguments with its options and operands. */
static void zsh_command(const struct command *command, FILE *to) {
    fprintf(to, "        %s)\n            _arguments -S", command->name);
    for (const struct option_row *row = command->rows; row->name; row++) zsh_option(row, to);
    fputs(" \\\n            '(- *)'{-h,--help}'[print what the command does, and its options]'", to);
    if (command->operands.kind != WORD_OTHER) {
        fputs(" \\\n            '*: :", to);
        print_words(command->operands.kind, NULL, "(", ")", actions[command->operands.kind].zsh, to);
        fputc('\'', to);
    }
    fputs(" ;;\n", to);
}

/* Prints the script for zsh: a call of _arguments for each command. */
static void print_zsh(const struct command *const list[], FILE *to) {
    OWNED char *names = command_words(list);
    fprintf(to, "#compdef tilerun\n# zsh completion of tilerun, %s zsh`.\n_tilerun() {\n", banner);
    fputs("    local curcontext=$curcontext state line\n    local -a commands\n    commands=(\n", to);
    for (int i = 0; list[i]; i++) {
        fprintf(to, "        '%s:", list[i]->name);
        zsh_text(list[i]->summary, to);
        fputs("'\n", to);
    }
    fprintf(
        to,
        "        'help:Explain the program or a command.'\n    )\n"
        "    _arguments -C '(- *)'{-h,--help}'[print what the program does]' '(- *)--version[print the version]' \\\n"
        "        '1:command:->command' '*::argument:->argument' && return\n"
        "    case $state in\n"
        "    command) _describe command commands ;;\n"
        "    argument)\n"
        "        case $line[1] in\n"
        "        help) _arguments '1:command:(%s)' ;;\n",
        names);
    for (; *list; list++) zsh_command(*list, to);
    fputs("        esac ;;\n    esac\n}\n"
          "if [ \"$funcstack[1]\" = _tilerun ]; then _tilerun \"$@\"; else compdef _tilerun tilerun; fi\n",
          to);
}

/* ---- fish ---- */

static void fish_text(const char *text, FILE *to) {
    fputc('\'', to);
    for (; *text; text++) fprintf(to, strchr("'\\", *text) ? "\\%c" : "%c", *text);
    fputc('\'', to);
}

/* Prints the beginning of fish's `complete` for words after this command. */
static void fish_begin(const char *command, FILE *to) {
    fprintf(to, "complete -c tilerun -n 'contains -- %s (commandline -opc)[2]'", command);
}

/* Writes fish's `complete` commands for a command: one for each option, and one for its operands. */
static void fish_command(const struct command *command, FILE *to) {
    for (const struct option_row *row = command->rows; row->name; row++) {
        fish_begin(command->name, to);
        if (row->letter) fprintf(to, " -s %c", row->letter);
        fprintf(to, " -l %s", row->name);
        if (row->argument) {
            fputs(row->kind == WORD_FILE ? " -r" : " -x", to);
            print_words(row->kind, row->choices, " -a '", "'", actions[row->kind].fish, to);
        }
        fputs(" -d ", to);
        fish_text(row->help, to);
        fputc('\n', to);
    }
    if (command->operands.kind == WORD_OTHER) return;
    fish_begin(command->name, to);
    print_words(command->operands.kind, NULL, " -a '", "'", actions[command->operands.kind].fish, to);
    fputc('\n', to);
}

/* Prints the script for fish: a `complete` command for each command, option and operand. */
static void print_fish(const struct command *const list[], FILE *to) {
    OWNED char *names = command_words(list);
    fprintf(to,
            "# fish completion of tilerun, %s fish`.\n"
            "complete -c tilerun -f\n"
            "complete -c tilerun -s h -l help -d 'Explain the program or a command.'\n"
            "complete -c tilerun -n __fish_is_first_token -l version -d 'Print the version.'\n"
            "complete -c tilerun -n __fish_is_first_token -a help -d 'Explain the program or a command.'\n",
            banner);
    for (int i = 0; list[i]; i++) {
        fprintf(to, "complete -c tilerun -n __fish_is_first_token -a %s -d ", list[i]->name);
        fish_text(list[i]->summary, to);
        fputc('\n', to);
    }
    fish_begin("help", to);
    fprintf(to, " -a '%s'\n", names);
    for (; *list; list++) fish_command(*list, to);
}

enum status completion_print(const struct command *const list[], const char *shell, FILE *to, struct error *error) {
    static const struct {
        const char *shell;
        void (*print)(const struct command *const list[], FILE *to);
    } printers[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (unsigned long i = 0; i < sizeof printers / sizeof *printers; i++)
        if (strcmp(printers[i].shell, shell) == 0) return printers[i].print(list, to), STATUS_OK;
    return fail(error, STATUS_USAGE, "--print-completion must be bash, zsh or fish, not '%s'", shell);
}
