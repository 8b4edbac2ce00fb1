/* An ordered namespace: ranges both ways, a retried transaction, a snapshot, a backup. cc ordered.c -ltantalum_c */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tantalum.h"

static void must(int result, int expected, const char *what) {
    if (result != expected) {
        fprintf(stderr, "%s: %d instead of %d: %s\n", what, result, expected, tantalum_last_error());
        exit(1);
    }
}

static struct tantalum_store *store = NULL;
static uint32_t events = 0, counters = 0;

static bool print(const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes, void *context) {
    printf("%.*s=%.*s%s", (int)key_bytes, (const char *)key, (int)value_bytes, (const char *)value,
           (const char *)context);
    return true;
}

static bool two(const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes, void *context) {
    int *left = context;
    print(key, key_bytes, value, value_bytes, " ");
    return --*left > 0;
}

static bool count(const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes, void *context) {
    (void)key, (void)key_bytes, (void)value, (void)value_bytes;
    ++*(int *)context;
    return true;
}

static int fill(struct tantalum_tx *tx, void *context) {
    (void)context;
    for (int number = 0; number < 20; number++) {
        char key[16], value[16];
        int key_bytes = sprintf(key, "event %02d", number), value_bytes = sprintf(value, "%d", number);
        int done = tantalum_insert(tx, events, (uint8_t *)key, key_bytes, (uint8_t *)value, value_bytes);
        if (done != TANTALUM_OK) return done;
    }
    return TANTALUM_OK;
}

static int add_one(struct tantalum_tx *tx, void *context) {
    const uint8_t *key = (const uint8_t *)"n";
    uint64_t number = 0;
    size_t bytes = 0;
    (void)context;
    int done = tantalum_read_for_update(tx, counters, key, 1, (uint8_t *)&number, sizeof number, &bytes);
    if (done != TANTALUM_OK && done != TANTALUM_NOT_FOUND) return done;
    number++;
    return tantalum_put(tx, counters, key, 1, (uint8_t *)&number, sizeof number);
}

static void *add_many(void *context) {
    for (int turn = 0; turn < 1000; turn++) {
        must(tantalum_transact(store, add_one, context), TANTALUM_OK, "add one");
    }
    return NULL;
}

/* A value that is read piece by piece, in a transaction and in a snapshot. */
static void large_value(void) {
    struct tantalum_tx *tx = NULL;
    struct tantalum_store_snapshot *snapshot = NULL;
    const uint8_t *key = (const uint8_t *)"large";
    const size_t length = 20 << 20;
    static uint8_t piece[1 << 20];
    size_t copied = 0;
    uint64_t bytes = 0, at = 0, sum = 0;
    uint8_t *value = malloc(length);

    for (size_t i = 0; i < length; i++) value[i] = (uint8_t)(i >> 16 & 15);
    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    must(tantalum_put(tx, counters, key, 5, value, length), TANTALUM_OK, "put of a large value");
    must(tantalum_commit(tx), TANTALUM_OK, "commit");
    free(value);
    must(tantalum_store_snapshot_open(store, &snapshot), TANTALUM_OK, "snapshot");
    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    must(tantalum_value_bytes(tx, counters, key, 5, &bytes), TANTALUM_OK, "bytes");
    do {
        must(tantalum_read_at(tx, counters, key, 5, at, piece, sizeof piece, &copied), TANTALUM_OK, "read at");
        for (size_t i = 0; i < copied; i++) sum += piece[i];
        at += copied;
    } while (copied == sizeof piece);
    must(tantalum_read_at(tx, counters, (uint8_t *)"none", 4, 0, piece, 1, &copied), TANTALUM_NOT_FOUND, "no key");
    must(tantalum_read_at(tx, counters, key, 5, 0, NULL, 1, &copied), TANTALUM_INVALID, "no buffer");
    must(tantalum_delete(tx, counters, key, 5), TANTALUM_OK, "delete");
    must(tantalum_commit(tx), TANTALUM_OK, "commit");
    must(tantalum_store_snapshot_read_at(snapshot, counters, key, 5, length - 3, piece, sizeof piece, &copied),
         TANTALUM_OK, "read at, of a snapshot");
    must(copied == 3 && piece[2] == ((length - 1) >> 16 & 15), 1, "the end");
    must(tantalum_store_snapshot_value_bytes(snapshot, counters, key, 5, &bytes), TANTALUM_OK, "bytes");
    must(tantalum_store_snapshot_close(snapshot), TANTALUM_OK, "close the snapshot");
    printf("a value of %d bytes, %d read, sum %d\n", (int)bytes, (int)at, (int)sum);
}

int main(int arguments_count, char **arguments) {
    struct tantalum_tx *tx = NULL;
    struct tantalum_store_snapshot *snapshot = NULL;
    int left = 2, seen = 0, seen_now = 0, keys = 0;
    uint32_t number_of = 0;
    uint64_t number = 0;
    size_t bytes = 0;
    pthread_t threads[3];
    char backup[1024];

    if (arguments_count != 2) {
        fprintf(stderr, "ordered IMAGE\n");
        return 2;
    }
    must(tantalum_open(arguments[1], false, 0, &store), TANTALUM_OK, "open");
    must(tantalum_namespace(store, "events", &events), TANTALUM_OK, "namespace");
    must(tantalum_hashed_namespace(store, "counters", &counters), TANTALUM_OK, "hashed");
    must(tantalum_hashed_namespace(store, "events", &number_of), TANTALUM_INVALID, "it is ordered");
    must(tantalum_namespace(store, "counters", &number_of), TANTALUM_OK, "it is hashed, and is opened");
    must(number_of == counters, 1, "the same namespace");
    must(tantalum_transact(store, fill, NULL), TANTALUM_OK, "fill");
    must(tantalum_transact(store, fill, NULL), TANTALUM_EXISTS, "fill again");

    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    must(tantalum_range(tx, events, (uint8_t *)"event 07", 8, (uint8_t *)"event 1", 7, 0, print, "\n"), TANTALUM_OK,
         "range");
    must(tantalum_range(tx, events, NULL, 0, (uint8_t *)"event 04", 8, TANTALUM_BACKWARDS | TANTALUM_FOR_UPDATE, two,
                        &left),
         TANTALUM_OK, "backwards");
    printf("\n");
    must(tantalum_range(tx, counters, NULL, 0, NULL, 0, 0, count, &seen), TANTALUM_INVALID, "a hashed namespace");
    must(tantalum_range(tx, events, NULL, 0, NULL, 0, 0, NULL, NULL), TANTALUM_INVALID, "no function");
    must(tantalum_abort(tx), TANTALUM_OK, "abort");

    must(tantalum_store_snapshot_open(store, &snapshot), TANTALUM_OK, "snapshot");
    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    must(tantalum_put(tx, events, (uint8_t *)"event 99", 8, (uint8_t *)"x", 1), TANTALUM_OK, "put");
    must(tantalum_prefix(tx, events, (uint8_t *)"event", 5, 0, count, &seen_now), TANTALUM_OK, "prefix");
    must(tantalum_commit(tx), TANTALUM_OK, "commit");
    must(tantalum_store_snapshot_range(snapshot, events, NULL, 0, NULL, 0, 0, count, &seen), TANTALUM_OK, "range");
    must(tantalum_store_snapshot_read(snapshot, events, (uint8_t *)"event 99", 8, NULL, 0, &bytes),
         TANTALUM_NOT_FOUND, "read of a snapshot");
    must(tantalum_store_snapshot_close(snapshot), TANTALUM_OK, "close the snapshot");
    for (int thread = 0; thread < 3; thread++) pthread_create(&threads[thread], NULL, add_many, NULL);
    for (int thread = 0; thread < 3; thread++) pthread_join(threads[thread], NULL);
    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    must(tantalum_read(tx, counters, (uint8_t *)"n", 1, (uint8_t *)&number, sizeof number, &bytes), TANTALUM_OK, "read");
    must(tantalum_abort(tx), TANTALUM_OK, "abort");
    must(tantalum_list(store, counters, NULL, 0, 10, count, &keys), TANTALUM_OK, "list");
    must(keys, 1, "keys");
    printf("%d events, and %d now; 3 times 1000 make %d\n", seen, seen_now, (int)number);

    large_value();

    snprintf(backup, sizeof backup, "%s.backup", arguments[1]);
    must(tantalum_back_up(store, backup), TANTALUM_OK, "back up");
    must(tantalum_compact(store), TANTALUM_OK, "compact");
    must(tantalum_close(store), TANTALUM_OK, "close");
    must(tantalum_rebuild(arguments[1], 64 << 20), TANTALUM_OK, "rebuild");
    must(tantalum_restore(backup, arguments[1], 0), TANTALUM_INVALID, "restore over an image");
    remove(arguments[1]);
    must(tantalum_restore(backup, arguments[1], 128 << 20), TANTALUM_OK, "restore");
    must(tantalum_open(arguments[1], false, 0, &store), TANTALUM_OK, "open");
    must(tantalum_namespace(store, "events", &events), TANTALUM_OK, "namespace");
    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    seen = 0;
    must(tantalum_range(tx, events, NULL, 0, NULL, 0, 0, count, &seen), TANTALUM_OK, "range");
    must(tantalum_commit(tx), TANTALUM_OK, "commit");
    printf("restored: %d events\n", seen);
    must(tantalum_close(store), TANTALUM_OK, "close");
    return 0;
}
