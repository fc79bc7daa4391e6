/* Help texts of commands: how they are read and printed, and what shells complete by them. */
#include "../../runner/commands/help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct help_entry read_one(const char *help) {
    struct help_entry entry;
    assert_true(help_next(&help, &entry));
    assert_string_equal(help, "");
    assert_false(help_next(&help, &entry));
    return entry;
}

static void options_are_read(void **state) {
    (void)state;
    static const struct {
        const char *help;
        char letter;
        const char *name, *value, *text, *choices;
    } cases[] = {
        {"  -o, --output FILE  the results file\n", 'o', "output", "FILE", "the results file", ""},
        {"  --json   an array\n", 0, "json", "", "an array", ""},
        {"  --json\n     an array\n      of rows\n", 0, "json", "", "an array of rows", ""},
        {"  --json  an array", 0, "json", "", "an array", ""},
        {"  --json\n", 0, "json", "", "", ""},
        {"  --progress MODE    auto, plain or none\n", 0, "progress", "MODE", "auto, plain or none", "auto plain none"},
        {"  --device D  auto, cpu, cuda or cuda:N; the rest\n", 0, "device", "D", "auto, cpu, cuda or cuda:N; the rest",
         "auto cpu cuda"},
        {"  --by KEY  time or rate (default: time)\n", 0, "by", "KEY", "time or rate (default: time)", "time rate"},
        {"  --by KEY  time, rate, or name\n", 0, "by", "KEY", "time, rate, or name", "time rate name"},
        {"  --only ID,...  these operations or those\n", 0, "only", "ID,...", "these operations or those", ""},
        {"  --width N  narrow or wide enough\n", 0, "width", "N", "narrow or wide enough", ""},
        {"  --width N  at most, or less\n", 0, "width", "N", "at most, or less", ""},
        {"  --width N  ,,, or , or\n", 0, "width", "N", ",,, or , or", ""},
        {"  --quiet  yes, no or both\n", 0, "quiet", "", "yes, no or both", ""}, /* it takes no value */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct help_entry entry = read_one(cases[i].help);
        assert_int_equal(entry.letter, cases[i].letter);
        assert_string_equal(entry.name, cases[i].name);
        assert_string_equal(entry.value, cases[i].value);
        assert_string_equal(entry.text, cases[i].text);
        assert_string_equal(entry.choices, cases[i].choices);
    }
    assert_true(read_one("  --set N=V  a parameter (repeatable)\n").repeatable);
    assert_false(read_one("  --set N=V  a parameter\n").repeatable);
}

static void other_lines_are_paragraphs(void **state) {
    (void)state;
    const char *help = "First.\n  --one  text\n\nA few words\ngo on.\nSLOWER, LATER: a word.\nSAME: as\nbefore\n"
                       "\n  - a point\n  -x without a long name\nLast";
    static const char *const texts[] = {"First.",
                                        "text",
                                        "",
                                        "A few words go on.",
                                        "SLOWER, LATER: a word.",
                                        "SAME: as before",
                                        "",
                                        "  - a point",
                                        "  -x without a long name",
                                        "Last"};
    struct help_entry entry;
    for (int i = 0; i < 10; i++) {
        assert_true(help_next(&help, &entry));
        assert_string_equal(entry.name, i == 1 ? "one" : "");
        assert_string_equal(entry.text, texts[i]);
    }
    assert_false(help_next(&help, &entry));
}

static void long_texts_are_cut(void **state) {
    (void)state;
    char help[5000] = "  --";
    memset(help + 4, 'n', 1000);
    help[1004] = help[1006] = help[1007] = ' ';
    help[1005] = 'V';
    memset(help + 1008, 't', 3000);
    struct help_entry entry = read_one(help);
    assert_int_equal(strlen(entry.name), sizeof entry.name - 1);
    assert_string_equal(entry.value, "V");
    assert_int_equal(strlen(entry.text), sizeof entry.text - 1);
    assert_string_equal(entry.choices, "");
}

static void nearest_options(void **state) {
    (void)state;
    static const struct command command = {.name = "x",
                                           .arguments = "",
                                           .summary = "",
                                           .help = "  --width N  a number\n  --quiet    nothing\n  -x  text\n"};
    static const struct {
        const char *given, *name;
    } cases[] = {{"--witdh", "width"}, {"--wixxh=3", "width"}, {"--wixx=3", NULL}, {"--quiet=width", "quiet"},
                 {"--qiet=", "quiet"}, {"--unlike", NULL},     {"--", NULL},       {"-width", NULL},
                 {"width", NULL},      {"--=width", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[HELP_NAME_BYTES] = "";
        assert_int_equal(help_nearest(&command, cases[i].given, name), cases[i].name != NULL);
        assert_string_equal(name, cases[i].name ? cases[i].name : "");
    }
}

static void kinds_of_operands(void **state) {
    (void)state;
    static const struct {
        const char *arguments;
        enum help_kind kind;
    } cases[] = {
        {"", HELP_OTHER},
        {"[OPTION...] JOB", HELP_JOB},
        {"[--set NAME=VALUE]... JOB...", HELP_JOB},
        {"[--csv | --json] RESULTS", HELP_RESULTS},
        {"RESULTS [RESULTS...] [-o FILE.html]", HELP_RESULTS},
        {"[-o FILE] RESULTS...", HELP_RESULTS},
        {"[--threshold 5%] BASE NEW...", HELP_RESULTS},
        {"[OPERATION]", HELP_OPERATION},
        {"FILE [DATASET]", HELP_FILE},
        {"JOBS", HELP_OTHER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct command command = {.name = "x", .arguments = cases[i].arguments, .summary = "", .help = ""};
        assert_int_equal(help_operand(&command), cases[i].kind);
    }
}

static void lines_are_filled_to_80_columns(void **state) {
    (void)state;
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

static enum status no_run(int argc, char **argv, struct error *error) {
    (void)argc, (void)argv, (void)error;
    return STATUS_OK;
}

/* Every kind of option and operand. */
static const struct command drawn = {"draw", "[OPTION...] JOB", "draws it's [own]: a \\",
                                     "  -o, --output FILE  the file\n  --in DIR  a folder\n  --job JOB  a job\n"
                                     "  -r, --result RESULTS  results\n  --op OPERATION  an operation\n"
                                     "  --how MODE  quick or slow; it's how\n  --set N=V  a value (repeatable)\n"
                                     "  -n, --number N  a number\n  -q, --quiet  no words\n",
                                     no_run},
                            shown = {"see", "RESULTS", "sees", "", no_run}, none = {"rest", "", "rests", "", no_run},
                            named = {"tell", "[COMMAND]", "tells", "", no_run};

static char *completion(const char *shell) {
    static const struct command *const commands[] = {&drawn, &shown, &none, &named};
    static const struct program program = {.commands = commands, .command_count = 4};
    struct error error = {STATUS_OK, ""};
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    assert_int_equal(completion_print(&program, shell, to, &error), STATUS_OK);
    fclose(to);
    return text;
}

/* The parts must stand there one directly after the other. */
static void assert_printed(const char *shell, const char *const expected[]) {
    char *text = completion(shell), *at = strstr(text, expected[0]);
    if (!at) fail_msg("%s: no '%s' in\n%s", shell, expected[0], text);
    for (int i = 0; at && expected[i]; i++) {
        if (strncmp(at, expected[i], strlen(expected[i])) != 0) fail_msg("%s: '%s' before\n%s", shell, expected[i], at);
        at += strlen(expected[i]);
    }
    free(text);
}

#define WHEN(command) "complete -c tilerun -n 'contains -- " command " (commandline -opc)[2]' "

static void completion_of_fish(void **state) {
    (void)state;
    static const char *const names[] = {
        "complete -c tilerun -n __fish_is_first_token -a draw -d 'draws it\\'s [own]: a \\\\'\n",
        "complete -c tilerun -n __fish_is_first_token -a see -d 'sees'\n",
        "complete -c tilerun -n __fish_is_first_token -a rest -d 'rests'\n",
        "complete -c tilerun -n __fish_is_first_token -a tell -d 'tells'\n",
        WHEN("help") "-a 'draw see rest tell'\n",
        WHEN("draw") "-s o -l output -r -F -d 'the file'\n",
        WHEN("draw") "-l in -x -a '(__fish_complete_directories)' -d 'a folder'\n",
        WHEN("draw") "-l job -x -k -a '(__fish_complete_suffix .yaml; __fish_complete_suffix .yml)' -d 'a job'\n",
        WHEN("draw") "-s r -l result -x -k -a '(__fish_complete_suffix .h5)' -d 'results'\n",
        WHEN("draw") "-l op -x -a 'matmul reduce transpose scale' -d 'an operation'\n",
        WHEN("draw") "-l how -x -a 'quick slow' -d 'quick or slow; it\\'s how'\n",
        WHEN("draw") "-l set -x -d 'a value (repeatable)'\n",
        WHEN("draw") "-s n -l number -x -d 'a number'\n",
        WHEN("draw") "-s q -l quiet -d 'no words'\n",
        WHEN("draw") "-k -a '(__fish_complete_suffix .yaml; __fish_complete_suffix .yml)'\n",
        WHEN("see") "-k -a '(__fish_complete_suffix .h5)'\n",
        WHEN("tell") "-a 'draw see rest tell'\n",
        NULL};
    assert_printed("fish", names);
}

#define NEXT " \\\n            "

static void completion_of_zsh(void **state) {
    (void)state;
    static const char *const names[] = {"        'draw:draws it'\\''s \\[own\\]\\: a \\\\'\n", "        'see:sees'\n",
                                        "        'rest:rests'\n", "        'tell:tells'\n", NULL};
    static const char *const commands[] = {
        "        help) _arguments '1:command:(draw see rest tell)' ;;\n",
        "        draw)\n            _arguments -S",
        NEXT "'(-o --output)'{-o+,--output=}'[the file]:FILE:_files'",
        NEXT "'--in=[a folder]:DIR:_files -/'",
        NEXT "'--job=[a job]:JOB:_files -g \"*.(yaml|yml)(-.)\"'",
        NEXT "'(-r --result)'{-r+,--result=}'[results]:RESULTS:_files -g \"*.(h5|hdf5)(-.)\"'",
        NEXT "'--op=[an operation]:OPERATION:(matmul reduce transpose scale)'",
        NEXT "'--how=[quick or slow; it'\\''s how]:MODE:(quick slow)'",
        NEXT "'*--set=[a value (repeatable)]:N=V: '",
        NEXT "'(-n --number)'{-n+,--number=}'[a number]:N: '",
        NEXT "'(-q --quiet)'{-q,--quiet}'[no words]'",
        NEXT "'(- *)'{-h,--help}'[what the command does, and its options]'",
        NEXT "'*: :_files -g \"*.(yaml|yml)(-.)\"' ;;\n",
        "        see)\n            _arguments -S",
        NEXT "'(- *)'{-h,--help}'[what the command does, and its options]'",
        NEXT "'*: :_files -g \"*.(h5|hdf5)(-.)\"' ;;\n",
        "        rest)\n            _arguments -S",
        NEXT "'(- *)'{-h,--help}'[what the command does, and its options]' ;;\n",
        "        tell)\n            _arguments -S",
        NEXT "'(- *)'{-h,--help}'[what the command does, and its options]'",
        NEXT "'*: :(draw see rest tell)' ;;\n",
        "        esac ;;\n",
        NULL};
    assert_printed("zsh", names);
    assert_printed("zsh", commands);
}

static void completion_of_bash(void **state) {
    (void)state;
    static const char *const lines[] = {
        "    ' '*) words='draw see rest tell help' options='--help --version' ;;\n",
        "    'help '*) words='draw see rest tell' ;;\n",
        "    'draw --output' | 'draw -o') words='' files='any' ;;\n",
        "    'draw --in') words='' files='folders' ;;\n",
        "    'draw --job') words='' files='yaml yml' ;;\n",
        "    'draw --result' | 'draw -r') words='' files='h5 hdf5' ;;\n",
        "    'draw --op') words='' files='' ;;\n",
        "    'draw --how') words='quick slow' files='' ;;\n",
        "    'draw --set') words='' files='' ;;\n",
        "    'draw --number' | 'draw -n') words='' files='' ;;\n",
        "    'draw '*) options='-o --output --in --job -r --result --op --how --set -n --number -q --quiet --help' ",
        "words='' files='yaml yml' ;;\n",
        "    'see '*) options='--help' words='' files='h5 hdf5' ;;\n",
        "    'rest '*) options='--help' words='' files='' ;;\n",
        "    'tell '*) options='--help' words='draw see rest tell' files='' ;;\n",
        "    esac\n",
        NULL};
    assert_printed("bash", lines);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_read),   cmocka_unit_test(other_lines_are_paragraphs),
        cmocka_unit_test(long_texts_are_cut), cmocka_unit_test(kinds_of_operands),
        cmocka_unit_test(nearest_options),    cmocka_unit_test(lines_are_filled_to_80_columns),
        cmocka_unit_test(completion_of_fish), cmocka_unit_test(completion_of_zsh),
        cmocka_unit_test(completion_of_bash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
