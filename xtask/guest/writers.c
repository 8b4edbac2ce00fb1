/*
 * The workloads of pebble-fig8 and of OLTP in pebble-fig9 and -fig10, as threads on the files of a mounted file system, so that
 * any file system can be measured with them. The same sizes, numbers of files and syncs as crates/lab/papers and
 * crates/tools/workloads have.
 *
 *   writers synced FOLDER fsync|fdatasync overwrites|appends BYTES WRITES FILE_MIB
 *       makes four files; with WRITES, four threads then write and sync, each in its own file
 *   writers oltp FOLDER fsync|fdatasync WRITES
 *       makes ten data files and a log of 10 MiB; with WRITES, filebench's OLTP then works on them
 *
 * With 0 for WRITES files are only made. At the end everything is synced, and the last line says how many
 * writes there were and how many blocks of 4 KiB of contents they changed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, MIB = 1 << 20, WRITERS = 4 };

static int folder;
static int (*sync_file)(int);
static uint64_t writes, blocks;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t below(uint64_t *state, uint64_t limit) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % limit;
}

static int open_file(const char *name, int flags) {
    int file = openat(folder, name, O_RDWR | flags, 0644);
    if (file < 0)
        fail(name);
    return file;
}

static void write_synced(int file, uint64_t offset, size_t bytes, uint8_t fill) {
    static __thread uint8_t data[MIB];
    memset(data, fill, bytes);
    if (pwrite(file, data, bytes, offset) != (ssize_t)bytes || sync_file(file))
        fail("write");
    __atomic_fetch_add(&writes, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&blocks, (bytes + BLOCK - 1) / BLOCK, __ATOMIC_RELAXED);
}

static void sync_all(void) {
    if (fsync(folder) || syncfs(folder))
        fail("sync");
}

static void make(const char *name, uint64_t mib) {
    static uint8_t data[MIB];
    int file = open_file(name, O_CREAT | O_TRUNC);
    memset(data, 0x11, MIB);
    for (uint64_t part = 0; part < mib; part++)
        if (pwrite(file, data, MIB, part * MIB) != MIB)
            fail(name);
    if (fsync(file))
        fail(name);
    close(file);
}

static void start(pthread_t *thread, void *(*body)(void *), uintptr_t number) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    /* their buffer is not on the stack, but in the memory that each thread has */
    pthread_attr_setstacksize(&small, 3 * MIB);
    if (pthread_create(thread, &small, body, (void *)number))
        fail("thread");
}

/* Four synced writers. */

static int appends;
static uint64_t write_bytes, writes_each, file_bytes;

static void *synced_writer(void *number) {
    uintptr_t me = (uintptr_t)number;
    char name[] = {'0' + (char)me, 0};
    int file = open_file(name, 0);
    uint64_t random = 0x9e3779b97f4a7c15u * (me + 1), end = file_bytes;
    for (uint64_t count = 0; count < writes_each; count++) {
        uint64_t offset = below(&random, file_bytes / write_bytes) * write_bytes;
        if (appends) {
            offset = end;
            end += write_bytes;
        }
        write_synced(file, offset, write_bytes, (uint8_t)count);
    }
    close(file);
    return NULL;
}

static void synced(uint64_t count, uint64_t mib) {
    pthread_t threads[WRITERS];
    file_bytes = mib * MIB;
    writes_each = count / WRITERS;
    if (!count) {
        for (int file = 0; file < WRITERS; file++)
            make((char[]){'0' + (char)file, 0}, mib);
        return;
    }
    for (uintptr_t me = 0; me < WRITERS; me++)
        start(&threads[me], synced_writer, me);
    for (int me = 0; me < WRITERS; me++)
        pthread_join(threads[me], NULL);
}

/* Filebench's OLTP: readers post for each read; the log writer and database writers wait for so many posts before they
 * write again, and posts may run ahead of them by so many. Writer 0 is the log's. */

enum {
    DATA_FILES = 10,
    DATA_MIB = 10,
    READ_BYTES = 2 << 10,
    LOG_BYTES = 256 << 10,
    DATABASE_WRITERS = 10,
    READERS = 200,
    DATABASE_WRITES = 100,
    DATABASE_POSTS = 1000,
    DATABASE_AHEAD = 2000,
    LOG_POSTS = 3200,
    LOG_AHEAD = 1000,
    LOG = DATA_FILES
};

static int files[DATA_FILES + 1];
static uint64_t done, wanted, posts, waits[1 + DATABASE_WRITERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static int may_post(void) {
    for (int writer = 0; writer <= DATABASE_WRITERS; writer++) {
        uint64_t ahead = writer ? DATABASE_AHEAD : LOG_AHEAD, each = writer ? DATABASE_POSTS : LOG_POSTS;
        if (posts >= ahead + each * waits[writer])
            return 0;
    }
    return 1;
}

static void *reader(void *number) {
    uintptr_t me = (uintptr_t)number;
    uint64_t random = 0x9e3779b97f4a7c15u * (me + 1);
    uint8_t data[READ_BYTES];
    for (;;) {
        pthread_mutex_lock(&lock);
        while (done < wanted && !may_post())
            pthread_cond_wait(&changed, &lock);
        int ends = done >= wanted;
        posts++;
        if (posts % DATABASE_POSTS == 0 || posts % LOG_POSTS == 0)
            pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        if (ends)
            return NULL;
        uint64_t place = below(&random, DATA_MIB * MIB / READ_BYTES);
        if (pread(files[me % DATA_FILES], data, READ_BYTES, place * READ_BYTES) != READ_BYTES)
            fail("read");
    }
}

static void *oltp_writer(void *number) {
    uintptr_t me = (uintptr_t)number;
    uint64_t random = 0x9e3779b97f4a7c15u * (me + 1001), next = me;
    uint64_t bytes = me ? READ_BYTES : LOG_BYTES, each = me ? DATABASE_POSTS : LOG_POSTS;
    int left = 1;
    for (;;) {
        int file = files[me ? next++ % DATA_FILES : LOG];
        write_synced(file, below(&random, DATA_MIB * MIB / bytes) * bytes, bytes, (uint8_t)next);
        pthread_mutex_lock(&lock);
        left--;
        if (++done >= wanted)
            pthread_cond_broadcast(&changed);
        if (left == 0) {
            waits[me]++;
            pthread_cond_broadcast(&changed);
            while (done < wanted && posts < each * waits[me])
                pthread_cond_wait(&changed, &lock);
            left = me ? DATABASE_WRITES : 1;
        }
        int ends = done >= wanted;
        pthread_mutex_unlock(&lock);
        if (ends)
            return NULL;
    }
}

static void oltp(uint64_t count) {
    static pthread_t threads[1 + DATABASE_WRITERS + READERS];
    int all = 1 + DATABASE_WRITERS + READERS;
    wanted = count;
    for (int file = 0; file <= LOG; file++) {
        char name[8] = "log";
        if (file < LOG)
            snprintf(name, sizeof name, "data%d", file);
        if (!count)
            make(name, DATA_MIB);
        else
            files[file] = open_file(name, 0);
    }
    if (!count)
        return;
    for (int thread = 0; thread < all; thread++) {
        int writes = thread <= DATABASE_WRITERS;
        start(&threads[thread], writes ? oltp_writer : reader, writes ? thread : thread - DATABASE_WRITERS - 1);
    }
    for (int thread = 0; thread < all; thread++)
        pthread_join(threads[thread], NULL);
}

int main(int count, char **arguments) {
    int is_synced = count == 8 && !strcmp(arguments[1], "synced");
    if (!is_synced && !(count == 5 && !strcmp(arguments[1], "oltp"))) {
        fputs("see the head of writers.c\n", stderr);
        return 2;
    }
    folder = open(arguments[2], O_RDONLY | O_DIRECTORY);
    if (folder < 0)
        fail(arguments[2]);
    sync_file = strcmp(arguments[3], "fsync") ? fdatasync : fsync;
    if (is_synced) {
        appends = !strcmp(arguments[4], "appends");
        write_bytes = strtoull(arguments[5], NULL, 10);
        synced(strtoull(arguments[6], NULL, 10), strtoull(arguments[7], NULL, 10));
    } else {
        oltp(strtoull(arguments[4], NULL, 10));
    }
    sync_all();
    printf("%llu writes, %llu blocks\n", (unsigned long long)writes, (unsigned long long)blocks);
    return 0;
}
