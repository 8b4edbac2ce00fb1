/*
 * Atomic writes as Linux offers them, and writes of records that a power cut may tear.
 *
 *   atomic limits PATH
 *       prints what statx says of a device or file: the least and the largest atomic write, and the largest without copying it,
 *       if that is less; 0 for what is not said
 *   atomic write PATH OFFSET BYTES atomic|buffered
 *       writes once with RWF_ATOMIC, past the cache or through it, and compares what is read back; prints why if it is refused
 *   atomic fill DEVICE RECORDS
 *       writes so many records of each size, in their first version
 *   atomic overwrite DEVICE RECORDS LARGEST STATE SEED
 *       threads overwrite random records past the cache until a write fails, those of up to LARGEST bytes with RWF_ATOMIC in
 *       every other thread; stores in STATE what may be and what must be there
 *   atomic check DEVICE RECORDS STATE acknowledged|flushed
 *       prints for each size how many records were written and are torn: some units in one version, some in another. It ends
 *       badly if a unit is broken or of a version that was never written, or if a record is older than the last version that
 *       was acknowledged or flushed. Torn records are written again
 *
 * Single units are written behind the records now and then, so that not all records begin with a page of flash.
 *
 * Each unit of 4 KiB has its record's number, its place in the record, its version, and words that follow from these.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { UNIT = 4096, SIZES = 4, SMALLEST = 8 << 10, MOST_BYTES = 2 << 20, THREADS = 8, WRITES_PER_FLUSH = 100, RECORDS_PER_UNIT = 4 };

/* Newer than the C library's headers. */
enum { ATOMIC_FLAG = 0x40, ATOMIC_MASK = 0x10000, ATOMIC_FIELDS = 0xa8, BEST_FIELD = 0xb8 };

/* What is known of a record: it was written in each version up to `sent`. */
struct known {
    uint32_t sent, acknowledged, flushed, before;
};

static int device;
static uint64_t records;
static struct known *known;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t number(const char *text) { return strtoull(text, NULL, 10); }

static uint64_t mixed(uint64_t value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

static void *buffer(void) {
    void *memory = aligned_alloc(UNIT, MOST_BYTES);
    if (!memory)
        fail("memory");
    return memory;
}

/* Records are numbered by size, smallest first, and lie in this order. */
static uint64_t bytes_of(uint64_t record) { return (uint64_t)SMALLEST << record / records; }

static uint64_t offset_of(uint64_t record) {
    uint64_t size = record / records;
    return records * SMALLEST * ((1u << size) - 1) + record % records * bytes_of(record);
}

static void make(uint64_t *unit, uint64_t record, uint64_t place, uint64_t version) {
    unit[0] = record;
    unit[1] = place;
    unit[2] = version;
    for (uint64_t word = 3; word < UNIT / 8; word++)
        unit[word] = mixed(record << 40 ^ place << 32 ^ version ^ word << 52);
}

static int write_record(uint64_t *data, uint64_t record, uint64_t version, int flags) {
    uint64_t bytes = bytes_of(record);
    for (uint64_t place = 0; place < bytes / UNIT; place++)
        make(data + place * UNIT / 8, record, place, version);
    struct iovec whole = {data, bytes};
    return pwritev2(device, &whole, 1, offset_of(record), flags) == (ssize_t)bytes;
}

static int limits(const char *path) {
    uint8_t told[256] = {0};
    uint32_t mask, sizes[3];
    if (syscall(SYS_statx, AT_FDCWD, path, 0, ATOMIC_MASK, told))
        fail(path);
    memcpy(&mask, told, sizeof mask);
    memcpy(sizes, told + ATOMIC_FIELDS, 2 * sizeof *sizes);
    memcpy(sizes + 2, told + BEST_FIELD, sizeof *sizes);
    if (!(mask & ATOMIC_MASK))
        memset(sizes, 0, sizeof sizes);
    printf("%u %u %u\n", sizes[0], sizes[1], sizes[2]);
    return 0;
}

static int write_once(const char *path, uint64_t offset, uint64_t bytes, int direct) {
    int file = open(path, O_RDWR | O_CREAT | (direct ? O_DIRECT : 0), 0644);
    if (file < 0)
        fail(path);
    uint64_t *data = buffer(), *found = buffer();
    for (uint64_t word = 0; word < bytes / 8; word++)
        data[word] = mixed(word ^ offset << 20 ^ (uint64_t)getpid() << 40);
    struct iovec whole = {data, bytes}, back = {found, bytes};
    ssize_t done = pwritev2(file, &whole, 1, offset, ATOMIC_FLAG);
    if (done < 0) {
        puts(errno == EINVAL ? "EINVAL" : errno == EOPNOTSUPP ? "EOPNOTSUPP" : strerror(errno));
        return 1;
    }
    if (done != (ssize_t)bytes || preadv(file, &back, 1, offset) != done || memcmp(data, found, bytes)) {
        puts("something else is read back");
        return 1;
    }
    return 0;
}

static void fill(void) {
    uint64_t *data = buffer();
    for (uint64_t record = 0; record < SIZES * records; record++)
        if (!write_record(data, record, 0, 0))
            fail("write");
    if (fsync(device))
        fail("flush");
}

static uint64_t largest, seed;

/* Thread N has records N, N + THREADS, ...; the first one flushes, too: what was acknowledged before that is durable after. */
static void *overwriter(void *of) {
    uint64_t me = (uintptr_t)of, random = mixed(seed * THREADS + me + 1), *data = buffer();
    uint32_t *before = calloc(SIZES * records, sizeof *before);
    for (uint64_t count = 1;; count++) {
        random = mixed(random + 0x9e3779b97f4a7c15u);
        uint64_t record = random % (SIZES * records / THREADS) * THREADS + me;
        int is_atomic = me % 2 == 0 && bytes_of(record) <= largest;
        uint32_t version = known[record].sent + 1;
        known[record].sent = version;
        if (!write_record(data, record, version, is_atomic ? ATOMIC_FLAG : 0)) {
            if (errno == EINVAL || errno == EOPNOTSUPP)
                fail("write");
            return NULL;
        }
        __atomic_store_n(&known[record].acknowledged, version, __ATOMIC_RELEASE);
        if (count % RECORDS_PER_UNIT == 0 && pwrite(device, data, UNIT, offset_of(SIZES * records)) != UNIT)
            return NULL;
        if (me || count % WRITES_PER_FLUSH)
            continue;
        for (record = 0; record < SIZES * records; record++)
            before[record] = __atomic_load_n(&known[record].acknowledged, __ATOMIC_ACQUIRE);
        if (fsync(device))
            return NULL;
        for (record = 0; record < SIZES * records; record++)
            known[record].flushed = before[record];
    }
}

static void load(const char *state) {
    FILE *file = fopen(state, "r");
    known = calloc(SIZES * records, sizeof *known);
    if (file && fread(known, sizeof *known, SIZES * records, file) != SIZES * records)
        fail(state);
    if (file)
        fclose(file);
}

static void store(const char *state) {
    FILE *file = fopen(state, "w");
    if (!file || fwrite(known, sizeof *known, SIZES * records, file) != SIZES * records || fclose(file))
        fail(state);
}

static void overwrite(const char *state) {
    pthread_t threads[THREADS];
    load(state);
    for (uint64_t record = 0; record < SIZES * records; record++)
        known[record].before = known[record].sent;
    for (uintptr_t me = 0; me < THREADS; me++)
        if (pthread_create(&threads[me], NULL, overwriter, (void *)me))
            fail("thread");
    for (int me = 0; me < THREADS; me++)
        pthread_join(threads[me], NULL);
    store(state);
}

enum { TORN = -1 };

/* The version of a record, or TORN. What was lost or never written ends the program. */
static int64_t version_of(uint64_t *data, uint64_t record, uint32_t least) {
    uint64_t expected[UNIT / 8], bytes = bytes_of(record), oldest = UINT64_MAX, newest = 0;
    if (pread(device, data, bytes, offset_of(record)) != (ssize_t)bytes)
        fail("read");
    for (uint64_t place = 0; place < bytes / UNIT; place++) {
        uint64_t *unit = data + place * UNIT / 8, version = unit[2];
        make(expected, record, place, version);
        if (memcmp(unit, expected, UNIT) || version > known[record].sent || version < least) {
            printf("unit %llu of record %llu has version %llu, of %u to %u\n", (unsigned long long)place,
                   (unsigned long long)record, (unsigned long long)version, least, known[record].sent);
            exit(1);
        }
        oldest = version < oldest ? version : oldest;
        newest = version > newest ? version : newest;
    }
    return oldest == newest ? (int64_t)newest : TORN;
}

static void check(const char *state, int by_acknowledgement) {
    uint64_t written[SIZES] = {0}, torn[SIZES] = {0}, *data = buffer();
    load(state);
    for (uint64_t record = 0; record < SIZES * records; record++) {
        struct known *of = &known[record];
        written[record / records] += of->sent > of->before;
        int64_t version = version_of(data, record, by_acknowledgement ? of->acknowledged : of->flushed);
        if (version == TORN) {
            torn[record / records]++;
            version = ++of->sent;
            if (!write_record(data, record, of->sent, 0))
                fail("write");
        }
        /* what a cut has left is durable, and newer versions are gone */
        of->acknowledged = of->flushed = version;
    }
    if (fsync(device))
        fail("flush");
    store(state);
    for (int size = 0; size < SIZES; size++)
        printf("%s%d:%llu:%llu", size ? " " : "", SMALLEST << size, (unsigned long long)written[size],
               (unsigned long long)torn[size]);
    puts("");
}

int main(int count, char **arguments) {
    /* Linux's nvme-tcp sends from the thread that writes, which gets this signal if the connection has ended */
    signal(SIGPIPE, SIG_IGN);
    const char *what = count > 2 ? arguments[1] : "";
    if (!strcmp(what, "limits") && count == 3)
        return limits(arguments[2]);
    if (!strcmp(what, "write") && count == 6)
        return write_once(arguments[2], number(arguments[3]), number(arguments[4]), !strcmp(arguments[5], "atomic"));
    if (count < 4 || (device = open(arguments[2], O_RDWR | O_DIRECT)) < 0 || !(records = number(arguments[3]))) {
        fputs("see the head of atomic.c\n", stderr);
        return 2;
    }
    if (!strcmp(what, "fill") && count == 4) {
        fill();
    } else if (!strcmp(what, "overwrite") && count == 7) {
        largest = number(arguments[4]);
        seed = number(arguments[6]);
        overwrite(arguments[5]);
    } else if (!strcmp(what, "check") && count == 6) {
        check(arguments[4], !strcmp(arguments[5], "acknowledged"));
    } else {
        fputs("see the head of atomic.c\n", stderr);
        return 2;
    }
    return 0;
}
