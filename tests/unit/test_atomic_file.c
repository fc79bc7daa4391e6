/* test_atomic_file.c - files written directly where they go: a pipe with a slow reader, a device. */
#include "../../runner/base/atomic_file.h"
#include "scratch.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20 }; /* many times what a pipe holds */

static unsigned char byte_at(int i) {
    return (unsigned char)(i * 31 + i / 977);
}

/* Reads all, after a while. */
static void *read_slowly(void *descriptor) {
    static unsigned char got[BYTES + 1];
    static bool same;
    size_t length = 0;
    poll(NULL, 0, 20);
    for (ssize_t more; (more = read(*(int *)descriptor, got + length, sizeof got - length)) > 0;)
        length += (size_t)more;
    same = length == BYTES;
    for (int i = 0; i < BYTES && same; i++) same = got[i] == byte_at(i);
    return &same;
}

/* It is opened without waiting for a reader, but a writer waits until there is room. */
static void a_pipe_is_waited_for(void **state) {
    struct error error = {.status = STATUS_OK};
    struct atomic_file file;
    pthread_t thread;
    void *same;
    char path[128];
    snprintf(path, sizeof path, "%s", in_folder("pipe"));
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_int_equal(atomic_file_open("report", path, "<!", false, &file, &error), STATUS_USAGE);
    assert_non_null(strstr(error.text, "the pipe has no reader"));
    atomic_file_discard(&file);
    error = (struct error){.status = STATUS_OK};
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(atomic_file_open("report", path, "<!", false, &file, &error), STATUS_OK);
    assert_int_equal(fcntl(file.descriptor, F_GETFL) & (O_NONBLOCK | O_APPEND | O_ACCMODE), O_WRONLY);
    assert_int_equal(fcntl(reader, F_SETFL, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    assert_int_equal(atomic_file_begin(&file, &error), STATUS_OK);
    for (int i = 0; i < BYTES; i++) fputc(byte_at(i), file.to);
    assert_int_equal(atomic_file_close(&file, &error), STATUS_OK);
    assert_int_equal(pthread_join(thread, &same), 0);
    assert_true(*(bool *)same);
    close(reader);
}

static void a_device_is_written_to(void **state) {
    static const char *const paths[] = {"/dev/null", "/dev/full"};
    for (int i = 0; i < 2; i++) {
        struct error error = {.status = STATUS_OK};
        struct atomic_file file;
        assert_int_equal(atomic_file_open("report", paths[i], "<!", false, &file, &error), STATUS_OK);
        assert_int_equal(atomic_file_begin(&file, &error), STATUS_OK);
        fputs("text", file.to);
        assert_int_equal(atomic_file_close(&file, &error), i ? STATUS_IO : STATUS_OK);
        if (i) assert_non_null(strstr(error.text, "report /dev/full: cannot be written: No space left"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_is_waited_for),
        cmocka_unit_test(a_device_is_written_to),
    };
    return cmocka_run_group_tests_name("atomic_file", tests, make_folder, remove_folder);
}
