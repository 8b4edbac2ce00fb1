/* Makes, updates, deletes and walks over documents, and shows what is refused. cc documents.c -ltantalum_c */
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

static void put(struct tantalum_batch *batch, const char *key, const char *value) {
    must(tantalum_batch_put(batch, (const uint8_t *)key, strlen(key), (const uint8_t *)value, strlen(value)),
         TANTALUM_OK, "put");
}

/* How many documents a walk has left; they come in order. */
static int count(struct tantalum_walk *walk, int *deletions) {
    const uint8_t *key = NULL, *value = NULL;
    size_t key_bytes = 0, value_bytes = 0;
    uint64_t number = 0;
    bool deleted = false;
    int documents = 0;
    while (tantalum_walk_next(walk, &key, &key_bytes, &value, &value_bytes, &number, &deleted) == TANTALUM_OK) {
        documents++;
        *deletions += deleted;
    }
    must(tantalum_walk_next(walk, NULL, NULL, NULL, NULL, NULL, NULL), TANTALUM_NOT_FOUND, "the end of a walk");
    must(tantalum_walk_end(walk), TANTALUM_OK, "end a walk");
    return documents;
}

int main(int arguments_count, char **arguments) {
    struct tantalum_documents *store = NULL, *second = NULL;
    struct tantalum_batch *batch = NULL;
    struct tantalum_snapshot *before = NULL, *after = NULL;
    struct tantalum_walk *walk = NULL;
    uint64_t made = 0;
    double garbage = -1;
    char key[16], buffer[16];
    uint8_t *value = (uint8_t *)buffer;
    size_t bytes = 0;
    int deletions = 0;

    if (arguments_count != 2) {
        fprintf(stderr, "documents FOLDER\n");
        return 2;
    }
    must(tantalum_documents_open(arguments[1], "app.couch", true, 0, &store), TANTALUM_OK, "open");
    must(tantalum_batch_new(&batch), TANTALUM_OK, "batch");
    for (int number = 0; number < 200; number++) {
        snprintf(key, sizeof key, "key %03d", number);
        put(batch, key, "first");
    }
    must(tantalum_documents_commit(store, batch, &made), TANTALUM_OK, "commit");
    must(tantalum_snapshot_open(store, &before), TANTALUM_OK, "snapshot");
    must(tantalum_batch_new(&batch), TANTALUM_OK, "batch");
    put(batch, "key 007", "second");
    must(tantalum_batch_delete(batch, (const uint8_t *)"key 009", 7), TANTALUM_OK, "delete");
    must(tantalum_documents_commit(store, batch, NULL), TANTALUM_OK, "commit");
    must(tantalum_documents_compact(store), TANTALUM_OK, "compact");
    must(tantalum_documents_garbage(store, &garbage), TANTALUM_OK, "garbage");
    must(garbage >= 0 && garbage < 100, 1, "garbage");
    must(tantalum_snapshot_open(store, &after), TANTALUM_OK, "snapshot");

    const uint8_t *seven = (const uint8_t *)"key 007";
    must(tantalum_snapshot_get(before, seven, 7, value, sizeof buffer, &bytes), TANTALUM_OK, "get before");
    must(bytes == 5 && memcmp(buffer, "first", 5) == 0, 1, "a snapshot stays what it was");
    must(tantalum_documents_get(store, seven, 7, value, 1, &bytes), TANTALUM_SHORT_BUFFER, "a short buffer");
    must(tantalum_documents_get(store, seven, 7, value, sizeof buffer, &bytes), TANTALUM_OK, "get");
    must(bytes == 6 && memcmp(buffer, "second", 6) == 0, 1, "an update is there");
    must(tantalum_documents_get(store, (const uint8_t *)"key 009", 7, value, sizeof buffer, &bytes),
         TANTALUM_NOT_FOUND, "a deleted document");

    must(tantalum_walk_keys(before, NULL, 0, NULL, 0, &walk), TANTALUM_OK, "walk");
    int first = count(walk, &deletions);
    must(tantalum_walk_keys(after, NULL, 0, NULL, 0, &walk), TANTALUM_OK, "walk");
    int second_count = count(walk, &deletions);
    must(tantalum_walk_keys(after, seven, 7, (const uint8_t *)"key 011", 7, &walk), TANTALUM_OK, "walk");
    must(count(walk, &deletions), 3, "a part without a deleted document");
    must(tantalum_walk_changes(after, made, &walk), TANTALUM_OK, "changes");
    int changes = count(walk, &deletions);
    printf("%d documents, then %d; %d changes, %d of them a deletion\n", first, second_count, changes, deletions);

    must(tantalum_documents_open(arguments[1], "app.couch", true, 0, &second), TANTALUM_REFUSED, "open twice");
    must(tantalum_documents_open(NULL, "app.couch", true, 0, &second), TANTALUM_INVALID, "a null folder");
    must(tantalum_documents_get(NULL, seven, 7, value, 1, &bytes), TANTALUM_INVALID, "a null store");
    must(tantalum_documents_get(store, NULL, 7, value, 1, &bytes), TANTALUM_INVALID, "a null key");
    must(tantalum_documents_get(store, seven, 7, NULL, 16, &bytes), TANTALUM_INVALID, "a null buffer");
    must(tantalum_documents_commit(store, NULL, NULL), TANTALUM_INVALID, "a null batch");
    must(tantalum_batch_put(NULL, seven, 7, seven, 7), TANTALUM_INVALID, "a null batch");
    must(tantalum_batch_new(&batch), TANTALUM_OK, "batch");
    must(tantalum_batch_put(batch, seven, 0, seven, 7), TANTALUM_INVALID, "an empty key");
    must(tantalum_batch_free(batch), TANTALUM_OK, "free");
    must(tantalum_walk_next(NULL, NULL, NULL, NULL, NULL, NULL, NULL), TANTALUM_INVALID, "a null walk");
    must(tantalum_snapshot_close(before), TANTALUM_OK, "close a snapshot");
    must(tantalum_snapshot_close(after), TANTALUM_OK, "close a snapshot");
    must(tantalum_documents_close(store), TANTALUM_OK, "close");
    must(tantalum_documents_open(arguments[1], "app.couch", false, 1 << 20, &store), TANTALUM_OK, "open again");
    must(tantalum_documents_close(store), TANTALUM_OK, "close");
    return 0;
}
