/*
 * Filters the records of a key-value namespace, and adds up what they hold: the records stay in the drive, and one result
 * crosses the link. A record's value begins with struct record.
 */
#include "tantalum_spu.h"

TL_THREADS(4, 1536)

enum { SUM_DONE = 0 }; /* the host's handler */

struct record {
    uint64_t amount;
    uint32_t category;
    uint32_t unused;
};

struct query {
    uint32_t name_space;
    uint32_t category;
    uint32_t tag;        /* chosen by the host */
    uint32_t key_length; /* of `after`, below; 0 begins with the first record */
    uint32_t most;       /* records in one request: a handler has 1,250,000 instructions */
    uint8_t after[16];
};

struct sum {
    uint64_t sum;
    uint32_t matched;
    uint32_t seen;
    uint32_t tag;
    int32_t status;
    uint32_t key_length; /* of the last key seen; 0 when there are no more records */
    uint8_t last[16];
    uint32_t unused;
};

/* Records that are read at once. */
#define BATCH 32u

struct read {
    struct tl_record head;
    struct record record;
};

TL_HANDLER(0, filter_sum)
{
    struct query query;
    struct read batch[BATCH];
    int32_t status = tl_receive(&query, sizeof query);
    if (status == TL_OK && query.key_length > sizeof query.after)
        status = TL_BAD_ARGUMENT;
    tl_respond(status);
    if (status != TL_OK)
        return;
    struct sum sum = {.tag = query.tag, .key_length = query.key_length};
    __builtin_memcpy(sum.last, query.after, sizeof sum.last);
    while (sum.seen < query.most) {
        uint32_t wanted = query.most - sum.seen < BATCH ? query.most - sum.seen : BATCH;
        int32_t count = tl_kv_scan(query.name_space, sum.last, sum.key_length, batch, wanted * sizeof batch[0],
                                   sizeof(struct record));
        if (count <= 0) {
            sum.key_length = 0;
            sum.status = count;
            break;
        }
        for (int32_t index = 0; index < count; index++) {
            const struct read *read = &batch[index];
            if (read->head.value_length >= sizeof(struct record) && read->record.category == query.category) {
                sum.sum += read->record.amount;
                sum.matched++;
            }
        }
        sum.seen += (uint32_t)count;
        sum.key_length = batch[count - 1].head.key_length;
        __builtin_memcpy(sum.last, batch[count - 1].head.key, sizeof sum.last);
    }
    tl_request_start(tl_origin(), 0, SUM_DONE);
    tl_request_append(&sum, sizeof sum);
    tl_request_finish();
}
