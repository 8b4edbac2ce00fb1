/*
 * Writes with Linux's write streams, by io_uring.
 *
 *   streams write DEVICE STREAM OFFSET BYTES [PIECE]
 *       writes past the cache in pieces of PIECE bytes (all at once by default) with a write stream, 0 for none, and compares what
 *       is read back; prints why if it is refused
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/io_uring.h>

enum { ENTRIES = 4, ALIGNED = 4096, STREAM_AT = 44 };

/* The field is newer than the headers of the C library: it shares its place with others. */
_Static_assert(offsetof(struct io_uring_sqe, splice_fd_in) == STREAM_AT, "where Linux has the write stream");

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void *mapped(int ring, size_t bytes, off_t offset) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);
    if (memory == MAP_FAILED)
        fail("mmap");
    return memory;
}

struct ring {
    int file;
    struct io_uring_params parameters;
    char *submissions, *completions;
    struct io_uring_sqe *entries;
};

static struct ring set_up(void) {
    struct ring ring = {0};
    ring.file = (int)syscall(SYS_io_uring_setup, ENTRIES, &ring.parameters);
    if (ring.file < 0)
        fail("io_uring_setup");
    struct io_uring_params *told = &ring.parameters;
    ring.submissions = mapped(ring.file, told->sq_off.array + told->sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
    ring.completions =
        mapped(ring.file, told->cq_off.cqes + told->cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    ring.entries = mapped(ring.file, told->sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    return ring;
}

/* Writes, and returns the result: bytes, or an error below zero. */
static int32_t written(struct ring *ring, int device, const void *data, uint32_t bytes, uint64_t offset, uint8_t stream) {
    const struct io_sqring_offsets *sq = &ring->parameters.sq_off;
    const struct io_cqring_offsets *cq = &ring->parameters.cq_off;
    uint32_t *tail = (uint32_t *)(ring->submissions + sq->tail), *array = (uint32_t *)(ring->submissions + sq->array);
    uint32_t index = *tail & *(uint32_t *)(ring->submissions + sq->ring_mask);
    struct io_uring_sqe *entry = &ring->entries[index];
    memset(entry, 0, sizeof(*entry));
    entry->opcode = IORING_OP_WRITE;
    entry->fd = device;
    entry->addr = (uintptr_t)data;
    entry->len = bytes;
    entry->off = offset;
    ((uint8_t *)entry)[STREAM_AT] = stream;
    array[index] = index;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring->file, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
        fail("io_uring_enter");
    uint32_t *head = (uint32_t *)(ring->completions + cq->head);
    const struct io_uring_cqe *done = (struct io_uring_cqe *)(ring->completions + cq->cqes);
    int32_t result = done[*head & *(uint32_t *)(ring->completions + cq->ring_mask)].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

static uint64_t number(const char *text) { return strtoull(text, NULL, 10); }

int main(int count, char **arguments) {
    if ((count != 6 && count != 7) || strcmp(arguments[1], "write") != 0) {
        fprintf(stderr, "streams write DEVICE STREAM OFFSET BYTES [PIECE]\n");
        return 2;
    }
    uint8_t stream = (uint8_t)number(arguments[3]);
    uint64_t offset = number(arguments[4]), bytes = number(arguments[5]);
    uint64_t piece = count == 7 ? number(arguments[6]) : bytes;
    int device = open(arguments[2], O_RDWR | O_DIRECT);
    if (device < 0)
        fail(arguments[2]);
    unsigned char *data = aligned_alloc(ALIGNED, bytes), *again = aligned_alloc(ALIGNED, bytes);
    if (data == NULL || again == NULL)
        fail("memory");
    for (uint64_t at = 0; at < bytes; at++)
        data[at] = (unsigned char)((offset + at) * 31 + (at >> 12) + stream);
    struct ring ring = set_up();
    for (uint64_t at = 0; at < bytes; at += piece) {
        uint32_t length = (uint32_t)(bytes - at < piece ? bytes - at : piece);
        int32_t result = written(&ring, device, data + at, length, offset + at, stream);
        if (result != (int32_t)length) {
            printf("%s\n", result < 0 ? strerrorname_np(-result) : "short");
            return 1;
        }
    }
    for (uint64_t at = 0; at < bytes;) {
        ssize_t length = pread(device, again + at, bytes - at, (off_t)(offset + at));
        if (length <= 0)
            fail("read");
        at += (uint64_t)length;
    }
    if (memcmp(data, again, bytes) != 0) {
        printf("other bytes are read than were written\n");
        return 1;
    }
    return 0;
}
