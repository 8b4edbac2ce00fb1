/*
 * Files of zonefs: makes a file system, writes and checks. Units are blocks of 4 KiB; what a unit holds follows from its file, how
 * often that was emptied, and its place.
 *
 *   zoned mkzonefs DEVICE
 *       writes the superblock to the first zone, as mkzonefs of zonefs-tools does; all zones are to be empty
 *   zoned append FILE NUMBER COUNT
 *       appends COUNT units to a file, of which NUMBER is the name
 *   zoned fill FOLDER FILES STATE SEED
 *       appends to random files, syncs and empties them until the device fails; STATE then says what is known of each
 *   zoned check FOLDER FILES STATE
 *       each file is as long as what was synced, at most as what was written, and holds that; STATE then says so
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UNIT = 4096, MOST_FILES = 64, MOST_UNITS = 32, ROUNDS = 100000 };

/* What is known of a file. */
struct file {
    uint64_t generation, synced, written, is_being_emptied;
};

static struct file files[MOST_FILES];
static uint8_t data[MOST_UNITS * UNIT] __attribute__((aligned(UNIT)));

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t mix(uint64_t word) {
    word ^= word >> 33;
    word *= 0xff51afd7ed558ccdu;
    word ^= word >> 33;
    word *= 0xc4ceb9fe1a85ec53u;
    return word ^ word >> 33;
}

static void unit_of(uint8_t *unit, uint64_t file, uint64_t generation, uint64_t place) {
    for (uint64_t at = 0; at < UNIT; at += 8) {
        uint64_t word = mix(file << 48 ^ generation << 32 ^ place << 12 ^ at ^ 1);
        memcpy(unit + at, &word, 8);
    }
}

static int open_file(const char *folder, uint64_t number, int flags) {
    char path[256];
    snprintf(path, sizeof path, "%s/%u", folder, (unsigned)number);
    return open(path, flags | O_DIRECT);
}

/* The CRC-32 that zonefs checks: not inverted at the end. */
static uint32_t crc32_of(const uint8_t *bytes, size_t count) {
    uint32_t crc = ~0u;
    for (size_t at = 0; at < count; at++) {
        crc ^= bytes[at];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return crc;
}

/* Magic number, checksum, label of 32 bytes, UUID, features, and the files' owner, group and mode, which features would enable. */
static void make_zonefs(const char *device) {
    uint32_t magic = 0x5a4f4653;
    memcpy(data, &magic, 4);
    for (int at = 0; at < 16; at++)
        data[40 + at] = at + 1;
    uint32_t crc = crc32_of(data, UNIT);
    memcpy(data + 4, &crc, 4);
    int to = open(device, O_WRONLY | O_DIRECT);
    if (to < 0 || pwrite(to, data, UNIT, 0) != UNIT || fsync(to))
        fail(device);
}

/* Returns whether it was done. */
static int append(int to, uint64_t number, struct file *file, uint64_t count) {
    for (uint64_t unit = 0; unit < count; unit++)
        unit_of(data + unit * UNIT, number, file->generation, file->written + unit);
    uint64_t from = file->written;
    file->written += count;
    return pwrite(to, data, count * UNIT, from * UNIT) == (ssize_t)(count * UNIT);
}

static void read_state(const char *path, uint64_t count) {
    FILE *from = fopen(path, "r");
    for (uint64_t number = 0; from && number < count; number++) {
        struct file *file = &files[number];
        if (fscanf(from, "%lu %lu %lu %lu", &file->generation, &file->synced, &file->written, &file->is_being_emptied) != 4)
            fail(path);
    }
    if (from)
        fclose(from);
}

static void write_state(const char *path, uint64_t count) {
    FILE *to = fopen(path, "w");
    if (!to)
        fail(path);
    for (uint64_t number = 0; number < count; number++) {
        struct file *file = &files[number];
        fprintf(to, "%lu %lu %lu %lu\n", file->generation, file->synced, file->written, file->is_being_emptied);
    }
    fclose(to);
}

/* Returns whether it was done. */
static int round_on(const char *folder, uint64_t number, uint64_t random) {
    struct file *file = &files[number];
    int to = open_file(folder, number, O_WRONLY);
    struct stat about;
    if (to < 0 || fstat(to, &about)) {
        if (to >= 0)
            close(to);
        return 0;
    }
    uint64_t room = about.st_blocks * 512 / UNIT - file->written;
    uint64_t count = random / 16 % MOST_UNITS + 1;
    int is_done;
    if (random % 16 == 0 || room < count) {
        file->is_being_emptied = 1;
        is_done = ftruncate(to, 0) == 0;
        if (is_done)
            *file = (struct file){.generation = file->generation + 1};
    } else {
        is_done = append(to, number, file, count);
        if (is_done && random % 16 < 6) {
            is_done = fsync(to) == 0;
            if (is_done)
                file->synced = file->written;
        }
    }
    close(to);
    return is_done;
}

/* Ends well when the device fails. */
static void fill(const char *folder, uint64_t count, const char *state, uint64_t seed) {
    read_state(state, count);
    uint64_t rounds = 0;
    while (rounds < ROUNDS) {
        uint64_t random = mix(seed << 32 ^ rounds);
        if (!round_on(folder, (random >> 40) % count, random))
            break;
        rounds++;
    }
    write_state(state, count);
    if (rounds == ROUNDS) {
        fprintf(stderr, "the device did not fail\n");
        exit(1);
    }
    printf("%lu rounds\n", rounds);
}

static void check(const char *folder, uint64_t count, const char *state) {
    static uint8_t right[UNIT];
    read_state(state, count);
    uint64_t synced = 0, found = 0, written = 0;
    for (uint64_t number = 0; number < count; number++) {
        struct file *file = &files[number];
        int from = open_file(folder, number, O_RDONLY);
        struct stat about;
        if (from < 0 || fstat(from, &about))
            fail(folder);
        uint64_t units = about.st_size / UNIT;
        synced += file->synced, found += units, written += file->written;
        if (file->is_being_emptied && units == 0) {
            *file = (struct file){.generation = file->generation + 1};
        } else if (units < file->synced || units > file->written || about.st_size % UNIT) {
            printf("file %lu has %lu units: %lu were synced, %lu written\n", number, units, file->synced, file->written);
            exit(1);
        }
        for (uint64_t unit = 0; unit < units; unit++) {
            unit_of(right, number, file->generation, unit);
            if (pread(from, data, UNIT, unit * UNIT) != UNIT || memcmp(data, right, UNIT)) {
                printf("unit %lu of file %lu, which has %lu, is wrong\n", unit, number, units);
                exit(1);
            }
        }
        *file = (struct file){.generation = file->generation, .synced = units, .written = units};
        close(from);
    }
    write_state(state, count);
    printf("%lu units synced, %lu found, %lu written\n", synced, found, written);
}

int main(int count, char **arguments) {
    const char *command = count > 2 ? arguments[1] : "";
    if (count == 3 && !strcmp(command, "mkzonefs")) {
        make_zonefs(arguments[2]);
    } else if (count == 5 && !strcmp(command, "append")) {
        struct stat about;
        int to = open(arguments[2], O_WRONLY | O_DIRECT);
        if (to < 0 || fstat(to, &about))
            fail(arguments[2]);
        struct file file = {.written = about.st_size / UNIT};
        if (!append(to, atol(arguments[3]), &file, atol(arguments[4])) || fsync(to))
            fail("append");
    } else if (count == 6 && !strcmp(command, "fill")) {
        fill(arguments[2], atol(arguments[3]), arguments[4], atol(arguments[5]));
    } else if (count == 5 && !strcmp(command, "check")) {
        check(arguments[2], atol(arguments[3]), arguments[4]);
    } else {
        fprintf(stderr, "mkzonefs DEVICE, append FILE NUMBER COUNT, fill FOLDER FILES STATE SEED, check FOLDER FILES STATE\n");
        return 2;
    }
    return 0;
}
