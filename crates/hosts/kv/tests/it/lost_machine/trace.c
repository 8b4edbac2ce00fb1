/* Loaded into a process (LD_PRELOAD): notes in TRACE, in their order, what it does to the file IMAGE and to IMAGE.mark.
 * A note is four numbers of 8 bytes (what, where, how much, 0) and the bytes. Nothing is synced: the disk is simulated. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, MARK = 3, HOLE = 4 };

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static int trace = -1;
static const char *image;
static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static int (*real_fallocate)(int, int, off64_t, off64_t);

__attribute__((constructor)) static void begin(void) {
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_fallocate = dlsym(RTLD_NEXT, "fallocate64");
    image = getenv("IMAGE");
    trace = open(getenv("TRACE"), O_WRONLY | O_CREAT | O_APPEND, 0600);
}

/* What a file is: WRITE for the image, MARK for its marks, 0 for any other. */
static int kind(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || image == NULL)
        return 0;
    path[length] = 0;
    size_t bytes = strlen(image);
    if (strncmp(path, image, bytes) != 0)
        return 0;
    return path[bytes] == 0 ? WRITE : strcmp(path + bytes, ".mark") == 0 ? MARK : 0;
}

static void put(const void *data, size_t bytes) {
    if (write(trace, data, bytes) != (ssize_t)bytes)
        abort();
}

static void note(uint64_t what, uint64_t at, uint64_t bytes, const void *data) {
    uint64_t head[4] = {what, at, bytes, 0};
    put(head, sizeof head);
    put(data, bytes);
}

ssize_t pwrite64(int file, const void *data, size_t bytes, off64_t at) {
    pthread_mutex_lock(&order);
    ssize_t written = real_pwrite(file, data, bytes, at);
    int error = errno, what = kind(file);
    if (written > 0 && what != 0)
        note(what, at, written, data);
    pthread_mutex_unlock(&order);
    errno = error;
    return written;
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t at) {
    return pwrite64(file, data, bytes, at);
}

/* The note of a hole has its length as its bytes. */
int fallocate64(int file, int mode, off64_t at, off64_t bytes) {
    pthread_mutex_lock(&order);
    int failed = real_fallocate(file, mode, at, bytes);
    int error = errno;
    uint64_t length = bytes;
    if (!failed && (mode & FALLOC_FL_PUNCH_HOLE) && kind(file) == WRITE)
        note(HOLE, at, sizeof length, &length);
    pthread_mutex_unlock(&order);
    errno = error;
    return failed;
}

int fallocate(int file, int mode, off_t at, off_t bytes) {
    return fallocate64(file, mode, at, bytes);
}

/* Stores to mapped memory would not be seen. An image is mapped only where its file system is known. */
int fstatfs(int file, struct statfs *found) {
    (void)file, (void)found;
    errno = ENOSYS;
    return -1;
}

int fstatfs64(int file, struct statfs64 *found) {
    (void)file, (void)found;
    errno = ENOSYS;
    return -1;
}

int fdatasync(int file) {
    pthread_mutex_lock(&order);
    if (kind(file) == WRITE)
        note(SYNC, 0, 0, "");
    pthread_mutex_unlock(&order);
    return 0;
}

int fsync(int file) {
    return fdatasync(file);
}
