/*
 * Append with a returned offset: many writers share a log on each processor without agreeing on its end. The answer is the
 * offset of the record in units of 16 bytes. A record and the log's new end are stored in one atomic step; so is what each
 * writer appended last, and a repeated request gets the answer of the first (hazard 20).
 */
#include "tantalum_spu.h"

/* one record at a time: the head has one writer */
TL_THREADS(1, 1024)

#define MAGIC 0x31505041u
#define WRITERS 32u
#define STRIPES 64u /* of each processor's part of the region; the first holds the head */
#define GRAIN 16u
#define LONGEST 4064u /* a record lies in one stripe, with its head */

enum { OLD = -100, FULL = -101 };

/* Handlers. */
enum { APPEND = 0, READ = 1 };

struct head {
    uint32_t magic;
    uint32_t end; /* in grains */
    struct {
        uint32_t process;
        uint32_t sequence;
        uint32_t offset;
    } writers[WRITERS];
};

struct append {
    uint32_t sequence; /* grows by one with each record of this process on this processor */
    uint32_t length;
};

/* What stands before a record. */
struct record {
    uint32_t process;
    uint32_t sequence;
    uint32_t length;
    uint32_t magic;
};

static struct head head;
static uint8_t is_read;

static int32_t read_head(void)
{
    if (is_read)
        return TL_OK;
    int32_t status = tl_nvm_read(&head, tl_region(0), sizeof head);
    if (status == TL_OK && head.magic != MAGIC)
        head = (struct head){.magic = MAGIC};
    is_read = status == TL_OK;
    return status;
}

/* Where an offset of the log is. */
static uint64_t place(uint32_t offset)
{
    uint32_t grains = TL_STRIPE / GRAIN;
    return tl_region(1 + offset / grains) + offset % grains * GRAIN;
}

/* The writer's entry, or a free one, or -1. */
static int32_t writer(uint32_t process)
{
    int32_t unused = -1;
    for (uint32_t index = 0; index < WRITERS; index++) {
        if (head.writers[index].process == process)
            return (int32_t)index;
        if (head.writers[index].process == 0 && unused < 0)
            unused = (int32_t)index;
    }
    return unused;
}

static int32_t append_record(void)
{
    struct append request;
    int32_t status = tl_receive(&request, sizeof request);
    if (status == TL_OK && (request.length > LONGEST || request.length != tl_remaining()))
        status = TL_BAD_ARGUMENT;
    if (status == TL_OK)
        status = read_head();
    if (status != TL_OK)
        return status;
    uint32_t process = tl_process(tl_origin());
    int32_t index = writer(process);
    if (index < 0)
        return TL_NO_ROOM;
#ifndef CANARY_REPEATS_APPEND
    uint32_t last = head.writers[index].process ? head.writers[index].sequence : 0;
    if (request.sequence == last && last != 0)
        return (int32_t)head.writers[index].offset;
    if (request.sequence <= last)
        return OLD;
#endif
    uint32_t grains = TL_STRIPE / GRAIN;
    uint32_t needed = (sizeof(struct record) + request.length + GRAIN - 1) / GRAIN;
    uint32_t offset = head.end;
    if (offset % grains + needed > grains)
        offset += grains - offset % grains;
    if (offset + needed > (STRIPES - 1) * grains)
        return FULL;
    struct head before = head;
    struct record record = {process, request.sequence, request.length, MAGIC};
    head.end = offset + needed;
    head.writers[index].process = process;
    head.writers[index].sequence = request.sequence;
    head.writers[index].offset = offset;
#ifdef CANARY_COMMITS_EARLY
    /* the head before what it covers */
    status = tl_nvm_write(tl_region(0), &head, sizeof head);
    if (status == TL_OK)
        status = tl_nvm_commit(TL_ATOMIC);
    if (status == TL_OK)
        status = tl_nvm_write(place(offset), &record, sizeof record);
    if (status == TL_OK && request.length)
        status = tl_receive_nvm(place(offset) + sizeof record, request.length);
#else
    status = tl_nvm_write(place(offset), &record, sizeof record);
    if (status == TL_OK && request.length)
        status = tl_receive_nvm(place(offset) + sizeof record, request.length);
    if (status == TL_OK)
        status = tl_nvm_write(tl_region(0), &head, sizeof head);
#endif
    if (status == TL_OK)
        status = tl_nvm_commit(TL_ATOMIC);
    if (status == TL_OK)
        return (int32_t)offset;
    tl_nvm_discard();
    head = before;
    return status;
}

TL_HANDLER(0, append)
{
    tl_respond(append_record());
}

/* Sends the record at an offset, with what stands before it, to the source. */
TL_HANDLER(1, read_record)
{
    uint32_t offset;
    struct record record;
    int32_t status = tl_receive(&offset, sizeof offset);
    if (status == TL_OK)
        status = read_head();
    if (status == TL_OK && offset >= head.end)
        status = TL_BAD_ARGUMENT;
    if (status == TL_OK)
        status = tl_nvm_read(&record, place(offset), sizeof record);
    if (status == TL_OK && (record.magic != MAGIC || record.length > LONGEST))
        status = TL_BAD_ARGUMENT;
    if (status == TL_OK) {
        tl_request_start(source, 0, READ);
        status = tl_request_append_nvm(place(offset), sizeof record + record.length);
    }
    if (status == TL_OK) {
        int32_t ticket = tl_request_finish();
        status = ticket < 0 ? ticket : TL_OK;
    }
    tl_respond(status);
}
