/* test_commands.c - every option of every command by its row; how help is filled; what shells complete. */
#include "../../runner/commands/help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the commands and their rows --------------------------------------------------------------------------------- */

/* Parses and validates a command line of words that end with NULL; returns the exit code and its message. */
static enum status parse(const struct command *command, const char *const words[], struct error *error) {
    char *argv[8] = {(char *)command->name};
    int argc = 1;
    for (; words[argc - 1]; argc++) argv[argc] = (char *)words[argc - 1];
    struct invocation invocation;
    *error = (struct error){.status = STATUS_OK};
    enum status status = command_parse(command, argc, argv, &invocation, error);
    if (!status) status = command_validate(&invocation, error);
    assert_int_equal(status, error->status);
    return status;
}

/* Makes each run of spaces and newlines one space. Returns the text. */
static char *squeezed(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        bool space = *from == ' ' || *from == '\n';
        if (space && to > text && to[-1] == ' ') continue;
        *to++ = space ? ' ' : *from;
    }
    *to = '\0';
    return text;
}

static char *printed_help(const struct command *command) {
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    help_print_command(command, to);
    fclose(to);
    return squeezed(text);
}

/* The manual page without roff's fonts and escapes. */
static char *printed_manual(void) {
    char *text, *to;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    manual_print(commands, stream);
    fclose(stream);
    to = text;
    for (const char *from = text; *from; from++) {
        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        switch (*++from) {
        case 'f': from++; break; /* a font */
        case '&': break;
        case '(':
            *to++ = from[1] == 'g' ? '`' : '\'';
            from += 2;
            break;
        default: *to++ = *from == 'e' ? '\\' : *from;
        }
    }
    *to = '\0';
    return squeezed(text);
}

static char *printed_completion(const struct command *const list[], const char *shell) {
    struct error error = {.status = STATUS_OK};
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    assert_int_equal(completion_print(list, shell, to, &error), STATUS_OK);
    fclose(to);
    return text;
}

static void assert_within(const char *where, const char *text, char *wanted) {
    if (!strstr(text, wanted)) fail_msg("%s lacks '%s':\n%s", where, wanted, text);
    free(wanted);
}

static void help_and_manual_hold_every_row(void **state) {
    char *manual = printed_manual();
    for (int i = 0; commands[i]; i++) {
        const struct command *command = commands[i];
        assert_true(command->settings_bytes <= SETTINGS_BYTES);
        char *help = printed_help(command), *paragraph;
        assert_true(command->summary[strlen(command->summary) - 1] == '.');
        assert_within("help", help, must_printf("usage: tilerun %s", command->name));
        assert_within("help", help, must_strdup(command->summary));
        assert_within("manual", manual, must_printf(".SS %s tilerun %s", command->name, command->name));
        for (const char *rest = command->description; (paragraph = help_paragraph(&rest));) {
            assert_within("help", help, must_strdup(paragraph));
            assert_within("manual", manual, paragraph);
        }
        for (const struct option_row *row = command->rows; row->name; row++) {
            char *letter = row->letter ? must_printf("-%c, ", row->letter) : must_strdup("");
            const char *argument = row->argument ? row->argument : "", *space = row->argument ? " " : "";
            char *entry = must_printf("%s--%s%s%s %s", letter, row->name, space, argument, row->help);
            assert_true(row->help[0] && row->parse);
            for (int choice = 0; row->choices && row->choices[choice]; choice++)
                assert_true(strstr(entry, row->choices[choice]));
            assert_within("help", help, must_strdup(entry));
            assert_within("manual", manual, must_printf(".TP %s", entry));
            free(entry);
            free(letter);
        }
        free(help);
    }
    free(manual);
}

static void completions_hold_every_row(void **state) {
    char *bash = printed_completion(commands, "bash"), *zsh = printed_completion(commands, "zsh"),
         *fish = printed_completion(commands, "fish");
    for (int i = 0; commands[i]; i++) {
        const char *name = commands[i]->name;
        char *begin = must_printf("    '%s '*) options='", name), *options = strstr(bash, begin);
        char *section = must_printf("        %s)\n            _arguments", name), *zsh_section = strstr(zsh, section);
        assert_non_null(options);
        assert_non_null(zsh_section);
        char *words = must_printf("%.*s ", (int)strcspn(options + strlen(begin), "'"), options + strlen(begin));
        char *zsh_words = must_printf("%.*s", (int)(strstr(zsh_section, " ;;\n") - zsh_section), zsh_section);
        for (const struct option_row *row = commands[i]->rows; row->name; row++) {
            assert_within("bash", words, must_printf("--%s ", row->name));
            assert_within("zsh", zsh_words, must_printf("--%s%s", row->name, row->argument ? "=" : ""));
            assert_within("fish", fish,
                          row->letter
                              ? must_printf("-- %s (commandline -opc)[2]' -s %c -l %s ", name, row->letter, row->name)
                              : must_printf("-- %s (commandline -opc)[2]' -l %s ", name, row->name));
            for (int choice = 0; row->choices && row->choices[choice]; choice++)
                assert_within("bash", bash, must_printf("%s", row->choices[choice]));
        }
        free(words);
        free(zsh_words);
        free(begin);
        free(section);
    }
    free(bash);
    free(zsh);
    free(fish);
}

/* Exit code 2, "bad usage", with the command and the option. */
static void every_command_refuses_bad_usage(void **state) {
    struct error error;
    for (int i = 0; commands[i]; i++) {
        const struct command *command = commands[i];
        assert_int_equal(parse(command, (const char *[]){"--zzzzzz", NULL}, &error), STATUS_USAGE);
        assert_within("message", error.text, must_printf("%s: unknown option '--zzzzzz'", command->name));
        assert_int_equal(parse(command, (const char *[]){"-Z", NULL}, &error), STATUS_USAGE);
        assert_within("message", error.text, must_printf("%s: unknown option '-Z'", command->name));
        bool one_missing = command->operands.min > 0;
        assert_int_equal(parse(command, (const char *[]){NULL}, &error), one_missing ? STATUS_USAGE : STATUS_OK);
        if (command->operands.max >= 0)
            assert_int_equal(parse(command, (const char *[]){"a", "b", "c", NULL}, &error), STATUS_USAGE);
        for (const struct option_row *row = command->rows; row->name; row++) {
            char option[40], misspelt[40];
            snprintf(option, sizeof option, "--%s", row->name);
            snprintf(misspelt, sizeof misspelt, "--%sq%s", row->name, row->argument ? "=1" : "");
            assert_int_equal(parse(command, (const char *[]){misspelt, NULL}, &error), STATUS_USAGE);
            assert_within("message", error.text, must_printf("unknown option '%s'", misspelt));
            if (!row->argument) continue;
            assert_int_equal(parse(command, (const char *[]){option, NULL}, &error), STATUS_USAGE);
            assert_within("message", error.text,
                          must_printf("%s: option '--%s' needs an argument", command->name, row->name));
        }
    }
    for (const struct exit_code *row = exit_codes; row->meaning; row++)
        if (row->code == STATUS_USAGE) assert_string_equal(row->meaning, "bad usage, job or input");
}

/* ---- the parser -------------------------------------------------------------------------------------------------- */

enum size { SMALL = 7, LARGE };
struct drawn_settings {
    bool quiet;
    enum size size, how;
    const char *output;
    struct option_list sets;
    double share;
};
static const struct option_row drawn_rows[] = {
    {"output", 'o', "FILE", "the file", PARSE_TEXT(struct drawn_settings, output), .kind = WORD_FILE},
    {"in", 0, "DIR", "a folder", PARSE_TEXT(struct drawn_settings, output), .kind = WORD_FOLDER},
    {"job", 0, "JOB", "a job", PARSE_TEXT(struct drawn_settings, output), .kind = WORD_JOB},
    {"result", 'r', "RESULTS", "results", PARSE_TEXT(struct drawn_settings, output), .kind = WORD_RESULTS},
    {"op", 0, "OPERATION", "an operation", PARSE_TEXT(struct drawn_settings, output), .kind = WORD_OPERATION},
    {"how", 0, "MODE", "quick or slow; it's how", PARSE_CHOICE(struct drawn_settings, how), CHOICES("quick", "slow")},
    {"set", 0, "N=V", "a value (repeatable)", PARSE_LIST(struct drawn_settings, sets)},
    {"number", 'n', "N", "a number", PARSE_SHARE(struct drawn_settings, share)},
    {"quiet", 'q', NULL, "no words", PARSE_FLAG(struct drawn_settings, quiet)},
    {"large", 0, NULL, "a size", PARSE_NUMBER(struct drawn_settings, size, LARGE)},
    {0},
};
static const struct option_row no_rows[] = {{0}};
static const struct command drawn = {.name = "draw",
                                     .summary = "draws it's [own]: a \\",
                                     .operands = {"JOB", WORD_JOB, 0, -1},
                                     .rows = drawn_rows,
                                     .settings_bytes = sizeof(struct drawn_settings),
                                     .defaults = &(const struct drawn_settings){.size = SMALL, .share = 3}},
                            shown = {.name = "see",
                                     .summary = "sees",
                                     .operands = {"RESULTS", WORD_RESULTS, 1, 1},
                                     .rows = no_rows},
                            none = {.name = "rest", .summary = "rests", .operands = {""}, .rows = no_rows};
static const struct command *const list[] = {&drawn, &shown, &none, NULL};

static void options_are_stored(void **state) {
    char *argv[] = {"draw",  "a", "-qo",  "x",     "--set=1", "b",  "--how", "slow",
                    "--set", "2", "-n5%", "--lar", "--",      "-q", NULL};
    struct invocation invocation;
    struct error error = {.status = STATUS_OK};
    char *line = command_line(14, argv);
    assert_string_equal(line, "tilerun draw a -qo x --set=1 b --how slow --set 2 -n5% --lar -- -q");
    free(line);
    line = command_line(3, (char *[]){"run", "it's $n.yaml", ""}); /* as a shell reads it */
    assert_string_equal(line, "tilerun run 'it'\\''s $n.yaml' ''");
    free(line);
    assert_int_equal(command_parse(&drawn, 14, argv, &invocation, &error), STATUS_OK);
    const struct drawn_settings *settings = invocation.settings;
    assert_true(settings->quiet);
    assert_int_equal(settings->size, LARGE);
    assert_int_equal(settings->how, 1);
    assert_string_equal(settings->output, "x");
    assert_int_equal(settings->sets.count, 2);
    assert_string_equal(settings->sets.items[0], "1");
    assert_string_equal(settings->sets.items[1], "2");
    assert_true(settings->share == 0.05);
    assert_int_equal(invocation.count, 3);
    assert_string_equal(invocation.operands[0], "a");
    assert_string_equal(invocation.operands[1], "b");
    assert_string_equal(invocation.operands[2], "-q");
    assert_int_equal(command_parse(&drawn, 1, argv, &invocation, &error), STATUS_OK);
    settings = invocation.settings;
    assert_false(settings->quiet);
    assert_int_equal(settings->size, SMALL);
    assert_true(settings->share == 3);
    assert_int_equal(invocation.count, 0);
}

static void arguments_are_checked(void **state) {
    static const struct {
        const char *option, *argument, *message;
    } cases[] = {{"--how", "quick", NULL},
                 {"--how", "quic", "draw: --how must be quick or slow, not 'quic'"},
                 {"--how", "", "not ''"},
                 {"-n", "0", NULL},
                 {"-n", "1000%", NULL},
                 {"-n", "1001%", "draw: --number must be a share from 0% to 1000%, such as 5% or 0.05, not '1001%'"},
                 {"-n", "10.5", "not '10.5'"},
                 {"-n", "-1", "not '-1'"},
                 {"-n", "%", "not '%'"},
                 {"-n", "", "not ''"},
                 {"-n", "5%%", "not '5%%'"},
                 {"-n", "nan", "not 'nan'"}};
    struct error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum status status = parse(&drawn, (const char *[]){cases[i].option, cases[i].argument, NULL}, &error);
        assert_int_equal(status, cases[i].message ? STATUS_USAGE : STATUS_OK);
        if (cases[i].message) assert_within("message", error.text, must_strdup(cases[i].message));
    }
    char *argv[2 * 65 + 1] = {"draw"};
    for (int i = 0; i < 65; i++) argv[2 * i + 1] = "--set", argv[2 * i + 2] = "a";
    struct invocation invocation;
    error = (struct error){.status = STATUS_OK};
    assert_int_equal(command_parse(&drawn, 2 * 64 + 1, argv, &invocation, &error), STATUS_OK);
    assert_int_equal(command_parse(&drawn, 2 * 65 + 1, argv, &invocation, &error), STATUS_USAGE);
    assert_string_equal(error.text, "draw: more than 64 --set");
}

static void nearest_options(void **state) {
    static const struct {
        const char *given, *name;
    } cases[] = {{"--ouptut", "output"},      {"--ouxxut=3", "output"}, {"--oxxxxt=3", NULL},
                 {"--quite=output", "quiet"}, {"--unlike", NULL},       {"-Z", NULL},
                 {"--=output", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error;
        assert_int_equal(parse(&drawn, (const char *[]){cases[i].given, NULL}, &error), STATUS_USAGE);
        char *hint = cases[i].name ? must_printf("(did you mean '--%s'?)", cases[i].name)
                                   : must_strdup("; `tilerun draw --help` lists them");
        assert_within("message", error.text, hint);
    }
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static void lines_are_filled_to_80_columns(void **state) {
    char text[2000] = "", *printed = NULL;
    size_t used = 0;
    for (int i = 1; i < 60; i++) {
        size_t length = (size_t)(1 + i * 7 % 23);
        memset(text + used, 'a' + i % 26, length);
        memset(text + used + length, ' ', i % 5 ? 1 : 2);
        used += length + (i % 5 ? 1 : 2);
    }
    for (int indent = 0; indent < 50; indent += 7) {
        size_t size;
        FILE *to = open_memstream(&printed, &size);
        fprintf(to, "%*s", indent, "");
        help_wrap(text, indent, indent, to);
        fclose(to);
        size_t words = 0, before = 80;
        for (char *line = strtok(printed, "\n"); line; line = strtok(NULL, "\n")) {
            assert_in_range(strlen(line), indent + 1, 80);
            assert_int_equal(strspn(line, " "), indent);
            assert_int_not_equal(line[strlen(line) - 1], ' ');
            assert_true(before + 1 + strcspn(line + indent, " ") > 80); /* else the line before had room */
            before = strlen(line);
            for (char *at = line + indent; *at; at += strcspn(at, " "), at += strspn(at, " ")) words++;
        }
        assert_int_equal(words, 59);
        free(printed);
    }
}

/* ---- completion -------------------------------------------------------------------------------------------------- */

/* The parts must stand there one directly after the other. */
static void assert_printed(const char *shell, const char *const expected[]) {
    char *text = printed_completion(list, shell), *at = strstr(text, expected[0]);
    if (!at) fail_msg("%s: no '%s' in\n%s", shell, expected[0], text);
    for (int i = 0; at && expected[i]; i++) {
        if (strncmp(at, expected[i], strlen(expected[i])) != 0) fail_msg("%s: '%s' before\n%s", shell, expected[i], at);
        at += strlen(expected[i]);
    }
    free(text);
}

#define WHEN(command) "complete -c tilerun -n 'contains -- " command " (commandline -opc)[2]' "

static void completion_of_fish(void **state) {
    static const char *const names[] = {
        "complete -c tilerun -n __fish_is_first_token -a draw -d 'draws it\\'s [own]: a \\\\'\n",
        "complete -c tilerun -n __fish_is_first_token -a see -d 'sees'\n",
        "complete -c tilerun -n __fish_is_first_token -a rest -d 'rests'\n",
        WHEN("help") "-a 'draw see rest'\n",
        WHEN("draw") "-s o -l output -r -F -d 'the file'\n",
        WHEN("draw") "-l in -x -a '(__fish_complete_directories)' -d 'a folder'\n",
        WHEN("draw") "-l job -x -k -a '(__fish_complete_suffix .yaml; __fish_complete_suffix .yml)' -d 'a job'\n",
        WHEN("draw") "-s r -l result -x -k -a '(__fish_complete_suffix .h5)' -d 'results'\n",
        WHEN("draw") "-l op -x -a 'matmul reduce transpose scale map' -d 'an operation'\n",
        WHEN("draw") "-l how -x -a 'quick slow' -d 'quick or slow; it\\'s how'\n",
        WHEN("draw") "-l set -x -d 'a value (repeatable)'\n",
        WHEN("draw") "-s n -l number -x -d 'a number'\n",
        WHEN("draw") "-s q -l quiet -d 'no words'\n",
        WHEN("draw") "-l large -d 'a size'\n",
        WHEN("draw") "-k -a '(__fish_complete_suffix .yaml; __fish_complete_suffix .yml)'\n",
        WHEN("see") "-k -a '(__fish_complete_suffix .h5)'\n",
        NULL};
    assert_printed("fish", names);
}

#define NEXT " \\\n            "

static void completion_of_zsh(void **state) {
    static const char *const names[] = {"        'draw:draws it'\\''s \\[own\\]\\: a \\\\'\n", "        'see:sees'\n",
                                        "        'rest:rests'\n", NULL};
    static const char *const sections[] = {
        "        help) _arguments '1:command:(draw see rest)' ;;\n",
        "        draw)\n            _arguments -S",
        NEXT "'(-o --output)'{-o+,--output=}'[the file]:FILE:_files'",
        NEXT "'--in=[a folder]:DIR:_files -/'",
        NEXT "'--job=[a job]:JOB:_files -g \"*.(yaml|yml)(-.)\"'",
        NEXT "'(-r --result)'{-r+,--result=}'[results]:RESULTS:_files -g \"*.(h5|hdf5)(-.)\"'",
        NEXT "'--op=[an operation]:OPERATION:(matmul reduce transpose scale map)'",
        NEXT "'--how=[quick or slow; it'\\''s how]:MODE:(quick slow)'",
        NEXT "'*--set=[a value (repeatable)]:N=V: '",
        NEXT "'(-n --number)'{-n+,--number=}'[a number]:N: '",
        NEXT "'(-q --quiet)'{-q,--quiet}'[no words]'",
        NEXT "'--large[a size]'",
        NEXT "'(- *)'{-h,--help}'[print what the command does, and its options]'",
        NEXT "'*: :_files -g \"*.(yaml|yml)(-.)\"' ;;\n",
        "        see)\n            _arguments -S",
        NEXT "'(- *)'{-h,--help}'[print what the command does, and its options]'",
        NEXT "'*: :_files -g \"*.(h5|hdf5)(-.)\"' ;;\n",
        "        rest)\n            _arguments -S",
        NEXT "'(- *)'{-h,--help}'[print what the command does, and its options]' ;;\n",
        "        esac ;;\n",
        NULL};
    assert_printed("zsh", names);
    assert_printed("zsh", sections);
}

static void completion_of_bash(void **state) {
    static const char *const lines[] = {
        "    ' '*) words='draw see rest help' options='--help --version' ;;\n",
        "    'help '*) words='draw see rest' ;;\n",
        "    'draw --output' | 'draw -o') options='' words='' files='any' ;;\n",
        "    'draw --in') options='' words='' files='folders' ;;\n",
        "    'draw --job') options='' words='' files='yaml yml' ;;\n",
        "    'draw --result' | 'draw -r') options='' words='' files='h5 hdf5' ;;\n",
        "    'draw --op') options='' words='matmul reduce transpose scale map' files='' ;;\n",
        "    'draw --how') options='' words='quick slow' files='' ;;\n",
        "    'draw --set') options='' words='' files='' ;;\n",
        "    'draw --number' | 'draw -n') options='' words='' files='' ;;\n",
        "    'draw '*) options='-o --output --in --job -r --result --op --how --set -n --number -q --quiet ",
        "--large --help' ",
        "words='' files='yaml yml' ;;\n",
        "    'see '*) options='--help' words='' files='h5 hdf5' ;;\n",
        "    'rest '*) options='--help' words='' files='' ;;\n",
        "    esac\n",
        NULL};
    assert_printed("bash", lines);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_manual_hold_every_row),
        cmocka_unit_test(completions_hold_every_row),
        cmocka_unit_test(every_command_refuses_bad_usage),
        cmocka_unit_test(options_are_stored),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(nearest_options),
        cmocka_unit_test(lines_are_filled_to_80_columns),
        cmocka_unit_test(completion_of_fish),
        cmocka_unit_test(completion_of_zsh),
        cmocka_unit_test(completion_of_bash),
    };
    return cmocka_run_group_tests_name("commands", tests, NULL, NULL);
}
