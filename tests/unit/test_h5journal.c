/* test_h5journal.c - a file that is changed in place is as it was again: after any changes, at once or by the next
 * process, wherever the journal ends; and stays as it is once it is final. */
#include "../../runner/storage/h5/h5journal.h"
#include "draws.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 4000 };

static char path[128], beside[128];
static unsigned char before[MOST];
static size_t bytes;

static int signal_at; /* comes before this read or write, from 1 */

/* In place of libc's. */
static bool is_interrupted(void) {
    bool now = signal_at > 0 && --signal_at == 0;
    if (now) errno = EINTR;
    return now;
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset) {
    return is_interrupted() ? -1 : syscall(SYS_pwrite64, fd, buf, n, offset);
}

ssize_t pread(int fd, void *buf, size_t nbytes, off_t offset) {
    return is_interrupted() ? -1 : syscall(SYS_pread64, fd, buf, nbytes, offset);
}

static void make_file(void) {
    bytes = 1 + (size_t)draw_below(MOST - 1);
    for (size_t i = 0; i < bytes; i++) before[i] = (unsigned char)draw_below(256);
    snprintf(path, sizeof path, "%s", in_folder("a.h5"));
    snprintf(beside, sizeof beside, "%s", in_folder("a.h5" H5_JOURNAL));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(before, 1, bytes, file), bytes);
    fclose(file);
}

/* Overwrites, appends and cuts off as HDF5 might, each time after it was kept. */
static void change(struct h5_journal *journal, int times) {
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    while (times-- > 0) {
        unsigned char new[MOST];
        size_t at = (size_t)draw_below((int)bytes + 100), count = 1 + (size_t)draw_below(500);
        memset(new, draw_below(256), sizeof new);
        if (draw_below(4) == 0) {
            assert_true(h5_journal_keep(journal, file, at, MOST));
            assert_int_equal(ftruncate(file, (off_t)at), 0);
            if (at < bytes) assert_int_equal(ftruncate(file, (off_t)bytes), 0); /* it grows again */
        } else {
            assert_true(h5_journal_keep(journal, file, at, count));
            assert_int_equal(pwrite(file, new, count, (off_t)at), count);
        }
    }
    if (draw_below(2)) {
        assert_true(h5_journal_keep(journal, file, 0, bytes));
        assert_int_equal(ftruncate(file, draw_below((int)bytes)), 0);
    }
    close(file);
}

static void assert_restored(void) {
    unsigned char now[MOST];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(now, 1, sizeof now, file), bytes);
    fclose(file);
    assert_memory_equal(now, before, bytes);
    assert_int_not_equal(access(beside, F_OK), 0);
}

static void changes_are_undone(void **state) {
    (void)state;
    state_of_draws = 1;
    for (int trial = 0; trial < 100; trial++) {
        make_file();
        struct h5_journal *journal = h5_journal_begin(path);
        assert_non_null(journal);
        change(journal, draw_below(8));
        bool left = trial % 2; /* for the next process */
        if (!left) assert_true(h5_restore(journal));
        h5_journal_free(journal);
        if (left) assert_true(h5_restore_leftover(path));
        assert_restored();
    }
}

/* It may be read by whom the file may be, as the user wants it of new files. */
static void a_journal_is_a_file_like_others(void **state) {
    (void)state;
    static const mode_t masks[] = {0, 022, 027, 077};
    make_file();
    mode_t former = umask(0);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct stat about;
        umask(masks[i]);
        struct h5_journal *journal = h5_journal_begin(path);
        umask(former);
        assert_non_null(journal);
        assert_int_equal(stat(beside, &about), 0);
        assert_int_equal(about.st_mode & 07777, 0666 & ~masks[i]);
        h5_journal_free(journal);
        assert_int_equal(unlink(beside), 0);
    }
}

/* Nothing is lost if a signal comes meanwhile. */
static void a_signal_changes_nothing(void **state) {
    (void)state;
    for (int at = 1, came = 1; came; at++) {
        make_file();
        struct h5_journal *journal = h5_journal_begin(path);
        int file = open(path, O_RDWR);
        signal_at = at;
        assert_true(h5_journal_keep(journal, file, 0, bytes));
        assert_int_equal(ftruncate(file, 0), 0);
        close(file);
        assert_true(h5_restore(journal));
        came = signal_at == 0;
        signal_at = 0;
        h5_journal_free(journal);
        assert_restored();
        assert_true(at > 3 || came);
    }
}

/* An entry that a kill cut short was never acted upon. */
static void a_journal_may_end_anywhere(void **state) {
    (void)state;
    state_of_draws = 2;
    for (int trial = 0; trial < 100; trial++) {
        struct stat about;
        make_file();
        struct h5_journal *journal = h5_journal_begin(path);
        change(journal, draw_below(4));
        assert_int_equal(stat(beside, &about), 0);
        int file = open(path, O_RDWR);
        assert_int_equal(ftruncate(file, (off_t)bytes), 0);
        assert_true(h5_journal_keep(journal, file, 0, bytes)); /* and then the kill */
        close(file);
        h5_journal_free(journal);
        struct stat longer;
        assert_int_equal(stat(beside, &longer), 0);
        assert_int_equal(truncate(beside, about.st_size + draw_below((int)(longer.st_size - about.st_size))), 0);
        assert_true(h5_restore_leftover(path));
        assert_restored();
    }
    make_file(); /* nor was the file changed before the journal had its size */
    struct h5_journal *journal = h5_journal_begin(path);
    h5_journal_free(journal);
    for (int length = 0; length < 8; length++) {
        FILE *file = fopen(beside, "w");
        fprintf(file, "%.*s", length, "1234567");
        fclose(file);
        assert_true(h5_restore_leftover(path));
        assert_restored();
    }
}

static void a_final_file_stays(void **state) {
    (void)state;
    for (int final = 0; final < 2; final++) {
        make_file();
        struct h5_journal *journal = h5_journal_begin(path);
        int file = open(path, O_RDWR);
        assert_true(h5_journal_keep(journal, file, 0, 1));
        before[0] ^= 1;
        assert_int_equal(pwrite(file, before, 1, 0), 1);
        h5_journal_lock(journal);
        h5_journal_unlock(journal, final);
        assert_int_equal(h5_restore(journal), !final);
        if (!final) before[0] ^= 1;
        if (final) unlink(beside);
        close(file);
        h5_journal_free(journal);
        assert_restored();
    }
    h5_journal_lock(NULL);
    h5_journal_unlock(NULL, true);
    h5_journal_free(NULL);
}

static void *restore(void *journal) {
    return h5_restore(journal) ? journal : NULL;
}

/* While the file is held it is not restored. */
static void a_holder_is_waited_for(void **state) {
    (void)state;
    pthread_t thread;
    void *restored;
    make_file();
    struct h5_journal *journal = h5_journal_begin(path);
    h5_journal_lock(journal);
    assert_int_equal(pthread_create(&thread, NULL, restore, journal), 0);
    int file = open(path, O_RDWR);
    assert_true(h5_journal_keep(journal, file, 0, bytes));
    usleep(5000);
    assert_int_equal(pwrite(file, "new", 3, (off_t)bytes), 3);
    close(file);
    h5_journal_unlock(journal, false);
    assert_int_equal(pthread_join(thread, &restored), 0);
    assert_ptr_equal(restored, journal);
    h5_journal_free(journal);
    assert_restored();
}

static void what_cannot_be_kept_or_restored(void **state) {
    (void)state;
    make_file();
    assert_null(h5_journal_begin(in_folder("no such file")));
    assert_int_equal(errno, ENOENT);
    assert_false(h5_restore_leftover(path)); /* there is no journal */
    struct h5_journal *journal = h5_journal_begin(path);
    int file = open(path, O_WRONLY);
    assert_false(h5_journal_keep(journal, file, 0, 1)); /* it cannot be read */
    assert_int_equal(errno, EBADF);
    assert_true(h5_journal_keep(journal, file, bytes, 100)); /* behind its end nothing is lost */
    close(file);
    assert_int_equal(unlink(path), 0);
    assert_false(h5_restore(journal));
    h5_journal_free(journal);
    assert_int_equal(unlink(beside), 0);
    make_file();
    assert_int_equal(mkdir(beside, 0777),
                     0); /* what has bytes and cannot be read is no journal that has yet to begin */
    assert_int_equal(mkdir(in_folder("a.h5" H5_JOURNAL "/a long name, for a folder's size"), 0777), 0);
    assert_false(h5_restore_leftover(path));
    assert_int_equal(rmdir(in_folder("a.h5" H5_JOURNAL "/a long name, for a folder's size")), 0);
    assert_int_equal(rmdir(beside), 0);
    assert_int_equal(symlink("elsewhere", beside), 0);
    assert_null(h5_journal_begin(path)); /* a link that somebody has put there */
    assert_int_equal(unlink(beside), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journal_is_a_file_like_others),
        cmocka_unit_test(changes_are_undone),
        cmocka_unit_test(a_signal_changes_nothing),
        cmocka_unit_test(a_journal_may_end_anywhere),
        cmocka_unit_test(a_final_file_stays),
        cmocka_unit_test(a_holder_is_waited_for),
        cmocka_unit_test(what_cannot_be_kept_or_restored),
    };
    return cmocka_run_group_tests_name("h5journal", tests, make_folder, remove_folder);
}
