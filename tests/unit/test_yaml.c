/* test_yaml.c - the tree with places: types, places, aliases, merges, limits, complaints, nearest names. */
#include "../../runner/base/spelling.h"
#include "../../runner/job/yaml.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct yaml_document *parse(const char *text) {
    return yaml_parse("t.yaml", text, strlen(text));
}

/* Returns the text that yaml_print_errors prints; the caller frees. */
static char *errors_of(const struct yaml_document *document) {
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    yaml_print_errors(document, to);
    fclose(to);
    return text;
}

static void assert_errors(struct yaml_document *document, const char *expected) {
    char *errors = errors_of(document);
    assert_string_equal(errors, expected);
    free(errors);
    yaml_close(document);
}

static void test_types(void **state) {
    static const struct {
        const char *text;
        enum yaml_kind kind;
        double value;
    } cases[] = {
        {"", YAML_NULL, 0},
        {"~", YAML_NULL, 0},
        {"Null", YAML_NULL, 0},
        {"nULL", YAML_STRING, 0},
        {"true", YAML_BOOL, 1},
        {"FALSE", YAML_BOOL, 0},
        {"yes", YAML_STRING, 0},
        {"on", YAML_STRING, 0},
        {"no", YAML_STRING, 0},
        {"12", YAML_INT, 12},
        {"-012", YAML_INT, -12},
        {"+3", YAML_INT, 3},
        {"0x1F", YAML_INT, 31},
        {"0o17", YAML_INT, 15},
        {"0o18", YAML_STRING, 0},
        {"-0x1", YAML_STRING, 0},
        {"0x", YAML_STRING, 0},
        {"1_000", YAML_STRING, 0},
        {"1.5", YAML_FLOAT, 1.5},
        {".5", YAML_FLOAT, .5},
        {"1.", YAML_FLOAT, 1},
        {"-1e3", YAML_FLOAT, -1000},
        {"1e", YAML_STRING, 0},
        {".", YAML_STRING, 0},
        {"1.5.2", YAML_STRING, 0},
        {"\"12\"", YAML_STRING, 0},
        {"'true'", YAML_STRING, 0},
        {"!!str 12", YAML_STRING, 0},
        {"nan", YAML_STRING, 0},
        {"inf", YAML_STRING, 0},
        {"1:30", YAML_STRING, 0},
        {"2026-01-01", YAML_STRING, 0},
        {"9223372036854775807", YAML_INT, 9223372036854775807.0},
        {"9223372036854775808", YAML_FLOAT, 0x1p63},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "k: %s\n", cases[i].text);
        struct yaml_document *document = parse(text);
        const struct yaml_node *node = yaml_get(yaml_root(document), "k");
        assert_non_null(node);
        assert_int_equal(node->kind, cases[i].kind);
        if (node->kind == YAML_BOOL) assert_int_equal(node->integer, (int64_t)cases[i].value);
        if (node->kind == YAML_INT || node->kind == YAML_FLOAT) assert_true(node->real == cases[i].value);
        yaml_close(document);
    }
    struct yaml_document *document = parse("[.inf, -.INF, .nan]");
    const struct yaml_node *root = yaml_root(document);
    assert_true(root->items[0]->real > 1e308 && root->items[1]->real < -1e308);
    assert_true(root->items[2]->real != root->items[2]->real);
    yaml_close(document);
}

static void test_places(void **state) {
    struct yaml_document *document = parse("\xef\xbb\xbfgr\xc3\xb6\xc3\x9f"
                                           "e: [1,\r\n   {b: 2}]\r\n");
    const struct yaml_node *root = yaml_root(document), *list = root->items[0];
    assert_int_equal(list->line, 1);
    assert_int_equal(list->column, 8);
    assert_int_equal(list->items[1]->line, 2);
    assert_int_equal(list->items[1]->column, 4);
    assert_int_equal(yaml_get(list->items[1], "b")->column, 8);
    yaml_close(document);
}

static void test_aliases_share(void **state) {
    struct yaml_document *document = parse("a: &x [1]\nb: *x\nc: &x 2\nd: *x\nx-hidden: &h 5\ne: *h\n");
    const struct yaml_node *root = yaml_root(document);
    assert_ptr_equal(yaml_get(root, "a"), yaml_get(root, "b"));
    assert_int_equal(yaml_get(root, "d")->integer, 2);
    assert_int_equal(yaml_get(root, "e")->integer, 5);
    assert_null(yaml_get(root, "x-hidden"));
    assert_int_equal(yaml_error_count(document), 0);
    yaml_close(document);
}

static void test_merges(void **state) {
    struct yaml_document *document = parse("x-a: &a {p: 1, q: 1}\nx-b: &b {q: 2, r: 2}\n"
                                           "m: {<<: [*a, *b], p: 0}\nn: {<<: *b, '<<': 7}\n");
    const struct yaml_node *m = yaml_get(yaml_root(document), "m"), *n = yaml_get(yaml_root(document), "n");
    assert_int_equal(m->count, 3);
    assert_int_equal(yaml_get(m, "p")->integer, 0);
    assert_int_equal(yaml_get(m, "q")->integer, 1);
    assert_int_equal(yaml_get(m, "r")->integer, 2);
    assert_int_equal(yaml_get(n, "<<")->integer, 7);
    assert_int_equal(yaml_error_count(document), 0);
    yaml_close(document);
}

static void test_duplicates_in_file_order(void **state) {
    assert_errors(parse("b: 1\na: 1\na: 2\nb: 2\n"), "t.yaml:3:1: key 'a' is already on line 2\n"
                                                     "    3 | a: 2\n"
                                                     "      | ^\n"
                                                     "t.yaml:4:1: key 'b' is already on line 1\n"
                                                     "    4 | b: 2\n"
                                                     "      | ^\n"
                                                     "2 mistakes in t.yaml\n");
}

/* Returns `count` copies of `piece` between two other texts; the caller frees. */
static char *repeated(const char *before, const char *piece, int count, const char *after) {
    size_t length = strlen(before) + strlen(piece) * (size_t)count + strlen(after) + 1;
    char *text = malloc(length), *end = text;
    assert_non_null(text);
    end = stpcpy(end, before);
    for (int i = 0; i < count; i++) end = stpcpy(end, piece);
    stpcpy(end, after);
    return text;
}

static void assert_refused(char *text, const char *words) {
    struct yaml_document *document = parse(text);
    char *errors = errors_of(document);
    assert_null(yaml_root(document));
    assert_non_null(strstr(errors, words));
    free(errors);
    free(text);
    yaml_close(document);
}

static void test_limits(void **state) {
    assert_refused(repeated("", "[", 65, "1"), "64 levels");
    assert_refused(repeated("", "[", 500000, ""), "64 levels");
    assert_refused(repeated("[", "1,", 100001, "1]"), "100000 nodes");
    assert_refused(repeated("a: &a [1]\nb: &b ", "[", 63, "*a"), "64 levels");
    assert_refused(repeated("x: &x [", "1,", 1000,
                            "1]\ny: [*x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, "
                            "*x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, "
                            "*x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, "
                            "*x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, "
                            "*x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, "
                            "*x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x, *x]\n"),
                   "100000 nodes");
    assert_refused(strdup("a: &a {<<: *a}"), "cyclic");
    assert_refused(strdup("a: \"\\0\""), "NUL");

    /* What `<<` names counts where it is named and where it is merged: here it makes 100000 nodes. */
    char *full = repeated("x: [1, 1]\na: &a {k: [", "1,", 33328, "]}\n<<: *a\n");
    struct yaml_document *merged = parse(full);
    assert_int_equal(yaml_error_count(merged), 0);
    yaml_close(merged);
    free(full);

    char *deep = repeated("", "[", 64, "1"), *closed = repeated(deep, "]", 64, "");
    struct yaml_document *document = parse(closed);
    assert_int_equal(yaml_error_count(document), 0);
    yaml_close(document);
    free(deep);
    free(closed);
}

static void test_many_keys_are_quick(void **state) {
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    for (int i = 0; i < 40000; i++) fprintf(to, "k%d: 1\n", i % 39999);
    fclose(to);
    struct yaml_document *document = parse(text);
    assert_int_equal(yaml_error_count(document), 1);
    yaml_close(document);
    free(text);
}

static void test_files(void **state) {
    assert_errors(yaml_load("/nonexistent/job.yaml"),
                  "/nonexistent/job.yaml: cannot be opened: No such file or directory\n");
    assert_errors(yaml_load("/"), "/: is a directory, not a job file\n");
    char path[] = "/tmp/tilerun-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, "a: 1\n", 5), 5);
    int input = dup(STDIN_FILENO);
    close(STDIN_FILENO); /* its number is the file's, which shall be closed */
    yaml_close(yaml_load(path));
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
    dup2(input, STDIN_FILENO);
    close(input);
    assert_int_equal(ftruncate(file, 100 << 20), 0);
    close(file);
    struct yaml_document *document = yaml_load(path);
    char *errors = errors_of(document);
    assert_non_null(strstr(errors, "has 104857600 bytes; the maximum for a job file is 16 MiB"));
    free(errors);
    yaml_close(document);
    unlink(path);
}

static void test_complaints(void **state) {
    struct yaml_document *document = parse("a: 1\nb: 2\n");
    const struct yaml_node *root = yaml_root(document);
    yaml_error(document, yaml_get(root, "b"), "second");
    yaml_error(document, yaml_get(root, "a"), "first \x1b[1m");
    yaml_error(document, yaml_get(root, "b"), "second");
    yaml_error(document, NULL, "whole");
    assert_int_equal(yaml_error_count(document), 3);
    assert_errors(document, "t.yaml: whole\n"
                            "t.yaml:1:4: first ?[1m\n"
                            "    1 | a: 1\n"
                            "      |    ^\n"
                            "t.yaml:2:4: second\n"
                            "    2 | b: 2\n"
                            "      |    ^\n"
                            "3 mistakes in t.yaml\n");
    document = parse("a: 1\n");
    for (int i = 0; i < 70; i++) yaml_error_at(document, 0, 0, "number %d", i);
    char *errors = errors_of(document);
    assert_non_null(strstr(errors, "number 49\n"));
    assert_non_null(strstr(errors, "70 mistakes in t.yaml; the first 50 are shown\n"));
    free(errors);
    yaml_close(document);
}

static void test_nearest_name(void **state) {
    static const char *const names[] = {"tiled", "naive", "n", "warmup", "float32", "float64"};
    assert_string_equal(nearest_name("tield", names, 6), "tiled");
    assert_string_equal(nearest_name("Tiled", names, 6), "tiled");
    assert_string_equal(nearest_name("warm_up", names, 6), "warmup");
    assert_string_equal(nearest_name("float23", names, 6), "float32");
    assert_null(nearest_name("m", names, 6));
    assert_null(nearest_name("cublas", names, 6));
    assert_null(nearest_name("", names, 6));
    char *endless = repeated("", "tiled", 100, "");
    assert_null(nearest_name(endless, names, 6));
    free(endless);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_aliases_share),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_duplicates_in_file_order),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_many_keys_are_quick),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_complaints),
        cmocka_unit_test(test_nearest_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
