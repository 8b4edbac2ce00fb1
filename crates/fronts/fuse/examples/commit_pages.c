/*
 * A program that updates pages of a file so that either all of them are new or none is: it writes the new pages to a
 * scratch file, syncs that, and commits them. The pages are written once, and no journal is needed.
 *
 *     cc -I crates/fronts/fuse/include -o commit_pages crates/fronts/fuse/examples/commit_pages.c
 *     ./commit_pages DATABASE SCRATCH
 *
 * Both files are made anew, on a mounted Tantalum volume. Ends with 0 if everything was as it should be.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tantalum_ioctl.h"

enum { PAGE = 4096, PAGES = 64 };

static void check(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static void write_page(int file, int page, int byte) {
    char data[PAGE];
    memset(data, byte, PAGE);
    check(pwrite(file, data, PAGE, (off_t)page * PAGE) == PAGE, "pwrite");
}

static void expect_page(int file, int page, int byte) {
    char data[PAGE], wanted[PAGE];
    memset(wanted, byte, PAGE);
    check(pread(file, data, PAGE, (off_t)page * PAGE) == PAGE, "pread");
    if (memcmp(data, wanted, PAGE) != 0) {
        fprintf(stderr, "page %d holds %d instead of %d\n", page, data[0], byte);
        exit(1);
    }
}

static __u64 token_of(int file) {
    __u64 token;
    check(ioctl(file, TANTALUM_TOKEN, &token) == 0, "TANTALUM_TOKEN");
    return token;
}

static void refused(int result, int wanted, const char *what) {
    if (result != -1 || errno != wanted) {
        fprintf(stderr, "%s: %s instead of %s\n", what, result == 0 ? "done" : strerror(errno), strerror(wanted));
        exit(1);
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: %s DATABASE SCRATCH\n", arguments[0]);
        return 2;
    }
    int database = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    int scratch = open(arguments[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
    check(database >= 0 && scratch >= 0, "open");
    for (int page = 0; page < PAGES; page++)
        write_page(database, page, 1);
    check(fsync(database) == 0, "fsync");

    /* Pages 3, 10 and 11 are to be new, all of them or none. */
    const int pages[] = {3, 10, 11};
    struct tantalum_range ranges[3];
    __u64 from = token_of(scratch), to = token_of(database);
    for (int i = 0; i < 3; i++) {
        write_page(scratch, i, 2);
        ranges[i] = (struct tantalum_range){from, (__u64)i * PAGE, to, (__u64)pages[i] * PAGE, PAGE};
    }
    check(fdatasync(scratch) == 0, "fdatasync");
    check(ioctl(database, TANTALUM_COMMIT(3), ranges) == 0, "TANTALUM_COMMIT");
    for (int page = 0; page < PAGES; page++)
        expect_page(database, page, page == 3 || page == 10 || page == 11 ? 2 : 1);
    for (int i = 0; i < 3; i++)
        expect_page(scratch, i, 2);

    /* The first pages of both swap places. */
    struct tantalum_range swap = {from, 0, to, 0, PAGE};
    check(ioctl(database, TANTALUM_EXCHANGE, &swap) == 0, "TANTALUM_EXCHANGE");
    expect_page(database, 0, 2);
    expect_page(scratch, 0, 1);

    /* Nonsense is refused, and changes nothing. */
    struct tantalum_range nonsense = {from, 1, to, 0, PAGE};
    refused(ioctl(database, TANTALUM_COMMIT(1), &nonsense), EINVAL, "an offset within a unit");
    nonsense = (struct tantalum_range){from + 1, 0, to, 0, PAGE};
    refused(ioctl(database, TANTALUM_COMMIT(1), &nonsense), EBADF, "a token of no file");
    nonsense = (struct tantalum_range){from, 3 * PAGE, to, 0, PAGE};
    refused(ioctl(database, TANTALUM_COMMIT(1), &nonsense), EINVAL, "a range beyond the end");
    int reader = open(arguments[1], O_RDONLY);
    check(reader >= 0, "open");
    nonsense = (struct tantalum_range){from, 0, token_of(reader), 0, PAGE};
    refused(ioctl(database, TANTALUM_COMMIT(1), &nonsense), EBADF, "a file that is open for reading");
    refused(ioctl(database, _IO('t', 9)), ENOTTY, "no such request");
    refused(ioctl(database, _IO('x', 1)), ENOTTY, "another's request");
    expect_page(database, 0, 2);
    puts("ok");
    return 0;
}
