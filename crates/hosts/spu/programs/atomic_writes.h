/* What Atomic-Writes answers and takes; for its own source and for programs that call it. */
#ifndef ATOMIC_WRITES_H
#define ATOMIC_WRITES_H

#include "tantalum_spu.h"

enum {
    AW_LOGWRITE = 0,       /* struct aw_write, then the data: add a write to a transaction, or replace one of it */
    AW_COMMIT = 1,         /* struct aw_commit: to one of the participants */
    AW_LOGWRITECOMMIT = 2, /* struct aw_write, then the data: a transaction of one write */
    AW_ABORT = 3,          /* struct aw_commit: to each participant */

    /* For hosts that have all writes of a transaction in memory until it commits, as storage managers do: struct aw_batch, a
       struct aw_part for each write, then their data. */
    AW_LOGWRITES = 4,       /* to each participant but the coordinator: all its writes, and prepare */
    AW_LOGWRITESCOMMIT = 5, /* to the coordinator, when all of them answered TL_OK: its writes, and commit */

    AW_PREPARE = 8, /* between processors */
    AW_PLAY = 9,
    AW_FORGET = 10,
    AW_QUERY = 11,

    AW_SCAN = 16, /* of the kernel, after the program was installed: to all processors, one after the other */
    AW_RESOLVE = 17,
    AW_END = 18,
    AW_ASSIGN = 19 /* struct aw_assign: to all processors */
};

/* Answers beside those of tantalum_spu.h. */
enum {
    AW_ABORTED = 1, /* the transaction was aborted; nothing of it remains */
    AW_BUSY = 2,    /* the slot works on something else */
    AW_OLD = 3,     /* a transaction with this number or a later one was finished in this slot */
    AW_UNKNOWN = 4, /* no such transaction here */
    AW_NOT_YOURS = 5,
    AW_LATER = 6,   /* it is committed, and not yet in place everywhere: send AW_COMMIT again */
    AW_CLOSED = 7   /* recovery has not ended */
};

#define AW_SLOTS 16u  /* transactions at once; transaction t is in slot t modulo this */
#define AW_RECORDS 8u /* writes of a transaction on one processor */
/* Stripes of the program's region on each processor. */
#define AW_STRIPES (AW_SLOTS * (1u + AW_RECORDS))

struct aw_write {
    uint64_t transaction;
    uint64_t home;
    uint32_t length;
    uint32_t record; /* 0 to AW_RECORDS-1; each names one write of the transaction on this processor */
};

struct aw_batch {
    uint64_t transaction;
    uint64_t participants; /* a bit for each processor that has writes of it */
    uint32_t coordinator;
    uint32_t count; /* 1 to AW_RECORDS */
};

struct aw_part {
    uint64_t home;
    uint32_t length;
    uint32_t unused;
};

#define AW_BATCH_AT 256u                        /* where a batch's data are in the first stripe of a slot */
#define AW_BATCH_BYTES (TL_STRIPE - AW_BATCH_AT) /* the most that they are */

struct aw_commit {
    uint64_t transaction;
    uint64_t participants; /* a bit for each processor that has writes of it */
};

struct aw_assign {
    uint32_t slot;
    uint32_t process; /* 0 takes the slot away */
};

#endif
