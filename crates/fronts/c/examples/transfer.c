/* Moves money between two accounts, and shows what is refused. cc transfer.c -ltantalum_c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tantalum.h"

static void must(int result, int expected, const char *what) {
    if (result != expected) {
        fprintf(stderr, "%s: %d instead of %d: %s\n", what, result, expected, tantalum_last_error());
        exit(1);
    }
}

static void put(struct tantalum_tx *tx, uint32_t names, const char *key, const char *value) {
    must(tantalum_put(tx, names, (const uint8_t *)key, strlen(key), (const uint8_t *)value, strlen(value)),
         TANTALUM_OK, "put");
}

static struct tantalum_store *store = NULL;

static const uint8_t long_key[1025];

static int32_t read_alice(struct tantalum_tx *tx, void *context) {
    uint8_t buffer[16];
    size_t bytes = 0;
    return tantalum_read(tx, *(uint32_t *)context, (const uint8_t *)"alice", 5, buffer, sizeof buffer, &bytes);
}

/* Both are transactions of this thread: the second one could wait for ever. */
static int32_t transfer_within_another(struct tantalum_tx *tx, void *context) {
    put(tx, *(uint32_t *)context, "alice", "60");
    return tantalum_transact(store, read_alice, context);
}

int main(int count, char **arguments) {
    struct tantalum_tx *tx = NULL;
    uint32_t accounts = 0;
    uint8_t buffer[16];
    size_t bytes = 0;
    const uint8_t *alice = (const uint8_t *)"alice";

    if (count != 2) {
        fprintf(stderr, "transfer IMAGE\n");
        return 2;
    }
    struct tantalum_options options = {.capacity_bytes = 64 << 20};
    uint64_t capacity_bytes = 0, records = 0;
    must(tantalum_open_with(arguments[1], &options, &store), TANTALUM_OK, "open");
    must(tantalum_capacity(store, 1000, &capacity_bytes, &records), TANTALUM_OK, "capacity");
    must(capacity_bytes == 64 << 20 && records > 40000 && records < 50000, 1, "the capacity");
    must(tantalum_namespace(store, "accounts", &accounts), TANTALUM_OK, "namespace");
    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    put(tx, accounts, "alice", "70");
    put(tx, accounts, "bob", "50");
    must(tantalum_commit(tx), TANTALUM_OK, "commit");
    must(tantalum_transact(store, transfer_within_another, &accounts), TANTALUM_SELF_DEADLOCK, "a transfer in another");

    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    put(tx, accounts, "alice", "0");
    must(tantalum_abort(tx), TANTALUM_OK, "abort");

    must(tantalum_close(store), TANTALUM_OK, "close");
    options.read_only = true;
    must(tantalum_open_with(arguments[1], &options, &store), TANTALUM_OK, "open to read");
    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    put(tx, accounts, "alice", "0");
    must(tantalum_commit(tx), TANTALUM_READ_ONLY, "commit where nothing is changed");
    must(tantalum_close(store), TANTALUM_OK, "close");
    must(tantalum_open(arguments[1], true, 1 << 20, &store), TANTALUM_OK, "open again");
    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin");
    must(tantalum_read(tx, accounts, alice, 5, buffer, 1, &bytes), TANTALUM_SHORT_BUFFER, "a short buffer");
    must(tantalum_read(tx, accounts, alice, 5, buffer, sizeof buffer, &bytes), TANTALUM_OK, "read");
    printf("alice has %.*s\n", (int)bytes, buffer);

    must(tantalum_read(tx, accounts, alice, 3, buffer, sizeof buffer, &bytes), TANTALUM_NOT_FOUND, "no such key");
    must(tantalum_read(tx, 77, alice, 5, buffer, sizeof buffer, &bytes), TANTALUM_NO_NAMESPACE, "no namespace");
    must(tantalum_read(tx, accounts, NULL, 5, buffer, sizeof buffer, &bytes), TANTALUM_INVALID, "a null key");
    must(tantalum_read(tx, accounts, alice, 5, NULL, 16, &bytes), TANTALUM_INVALID, "a null buffer");
    must(tantalum_read(tx, accounts, alice, 5, buffer, 16, NULL), TANTALUM_INVALID, "a null length");
    must(tantalum_put(tx, accounts, long_key, sizeof long_key, alice, 5), TANTALUM_INVALID, "a long key");
    must(tantalum_put(NULL, accounts, alice, 5, alice, 5), TANTALUM_INVALID, "a null transaction");
    must(tantalum_open(NULL, true, 0, &store), TANTALUM_INVALID, "a null path");
    must(tantalum_commit(NULL), TANTALUM_INVALID, "a null commit");
    must(tantalum_delete(tx, accounts, alice, 5), TANTALUM_OK, "delete");
    must(tantalum_abort(tx), TANTALUM_OK, "abort");

    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int forked = tantalum_begin(store, &tx);
        tantalum_close(store);
        _exit(forked == TANTALUM_FORKED ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    must(status, 0, "a forked process");
    must(tantalum_begin(store, &tx), TANTALUM_OK, "begin after a fork");
    must(tantalum_read(tx, accounts, alice, 5, buffer, sizeof buffer, &bytes), TANTALUM_OK, "read after a fork");
    must(tantalum_commit(tx), TANTALUM_OK, "commit after a fork");
    must(tantalum_close(store), TANTALUM_OK, "close");
    return 0;
}
