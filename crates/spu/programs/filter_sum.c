/*
 * Filters the records of a key-value namespace, and adds up what they hold: the records stay in the drive, and one result
 * crosses the link. A record's value begins with struct record.
 */
#include "tantalum_spu.h"

TL_THREADS(4, 512)

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

TL_HANDLER(0, filter_sum)
{
    struct query query;
    uint8_t value[64];
    int32_t status = tl_receive(&query, sizeof query);
    if (status == TL_OK && query.key_length > sizeof query.after)
        status = TL_BAD_ARGUMENT;
    tl_respond(status);
    if (status != TL_OK)
        return;
    struct sum sum = {.tag = query.tag, .key_length = query.key_length};
    __builtin_memcpy(sum.last, query.after, sizeof sum.last);
    while (sum.seen < query.most) {
        int32_t next = tl_kv_next(query.name_space, sum.last, sum.key_length, sum.last);
        sum.key_length = next > 0 ? (uint32_t)next : 0;
        if (next <= 0) {
            sum.status = next;
            break;
        }
        int32_t got = tl_kv_get(query.name_space, sum.last, sum.key_length, value, sizeof value);
        if (got < 0) {
            sum.status = got;
            break;
        }
        sum.seen++;
        const struct record *record = (const struct record *)value;
        if (got >= (int32_t)sizeof *record && record->category == query.category) {
            sum.sum += record->amount;
            sum.matched++;
        }
    }
    tl_request_start(tl_origin(), 0, SUM_DONE);
    tl_request_append(&sum, sizeof sum);
    tl_request_finish();
}
