/*
 * Atomic-Writes: editable atomic writes (thesis, section 5.3). A transaction's writes go to a redo log in the program's own
 * region, on the processors that own their homes, and may be replaced until they are committed. COMMIT goes to one of these
 * processors, the coordinator, which commits on all of them in two phases.
 *
 * A host that has all writes in memory until the commit needs fewer requests: LOGWRITES brings a participant all its writes and
 * prepares it, and when all have answered, LOGWRITESCOMMIT brings the coordinator its own and the commit. So the first phase
 * is the host's. If it lies about the answers, it harms only its own transaction.
 *
 * What recovery rests on:
 *
 * 1. A participant has stored that it is PREPARED, and its records, before it says so. When all said so, the coordinator
 *    flushes, which makes them durable on all processors: they share a drive.
 * 2. After that the coordinator stores COMMITTED, which is durable before any record is played. That is the commit.
 * 3. A participant plays its records and gives up its slot in one atomic step, before it says so.
 * 4. The coordinator gives up COMMITTED, with playing its own records in the same step, after all said so.
 * 5. Writes come home only when the decision is durable, also on one processor: their units have others' bytes too, and a store
 *    to these carries along what it finds there, which may then be durable before the rest. A write within one unit needs no
 *    decision.
 *
 * So after a cut, a participant that is PREPARED asks the coordinator: if that is COMMITTED with the same transaction, it
 * plays; otherwise the transaction was not committed anywhere (presumed abort). Records are played again only while the slot
 * is held, so nothing newer is overwritten.
 *
 * A repeated message changes nothing (hazard 20): records are named by the host, and a slot remembers the last transaction
 * that it finished, and how.
 */
#include "atomic_writes.h"

TL_THREADS(4, 768)

enum { FREE = 0, OPEN = 1, PREPARED = 2, COMMITTED = 3 };

#define MAGIC 0x31304157u
#define SELF_BIT (1ull << tl_processor())

/* A slot, as it is in the first unit of its stripes. */
struct slot {
    uint32_t magic;
    uint32_t state;
    uint64_t transaction;
    uint64_t finished; /* the last transaction that ended here */
    uint32_t outcome;  /* how: TL_OK or AW_ABORTED */
    uint32_t coordinator;
    uint64_t participants;
    uint32_t present;  /* a bit for each record */
    uint32_t is_batch; /* records are one behind the other at AW_BATCH_AT, and not in stripes of their own */
    struct aw_part records[AW_RECORDS];
};

_Static_assert(sizeof(struct slot) <= AW_BATCH_AT, "a slot ends before the data of a batch");

static struct slot slots[AW_SLOTS];
static uint32_t owners[AW_SLOTS]; /* the process that may use a slot */
static uint8_t locked[AW_SLOTS];  /* a thread works on it alone */
static uint8_t writing[AW_SLOTS]; /* threads that write records of its transaction, which is OPEN */
static uint8_t is_open;           /* recovery has ended */

static uint64_t header_address(uint32_t index) { return tl_region(index * (1 + AW_RECORDS)); }

static uint64_t record_address(uint32_t index, uint32_t record)
{
    return tl_region(index * (1 + AW_RECORDS) + 1 + record);
}

/* Stores a slot with its first records. */
static int32_t store_slot(uint32_t index, uint32_t records)
{
    uint32_t bytes = (uint32_t)__builtin_offsetof(struct slot, records) + records * (uint32_t)sizeof(struct aw_part);
    return tl_nvm_write(header_address(index), &slots[index], bytes);
}

static int32_t store_header(uint32_t index) { return store_slot(index, slots[index].present ? AW_RECORDS : 0); }

/* Ends a transaction in its slot. What is stored with it is the caller's to commit. */
static void set_finished(struct slot *slot, uint32_t outcome)
{
    slot->state = FREE;
    slot->finished = slot->transaction;
    slot->outcome = outcome;
    slot->present = 0;
}

/* Gives up a transaction. A header that is lost in a cut comes back as PREPARED, and the coordinator denies it. */
static int32_t forget(uint32_t index)
{
    uint32_t was = slots[index].state;
    set_finished(&slots[index], AW_ABORTED);
    return was == OPEN ? TL_OK : store_header(index);
}

/* Brings the records home, and frees the slot, in one atomic step. */
static int32_t play(uint32_t index)
{
    struct slot *slot = &slots[index];
    uint32_t state = slot->state, present = slot->present, outcome = slot->outcome;
    uint64_t finished = slot->finished, next = header_address(index) + AW_BATCH_AT;
    int32_t status = TL_OK;
    for (uint32_t record = 0; present >> record && status == TL_OK; record++) {
        if (!(present >> record & 1))
            continue;
        const struct aw_part *part = &slot->records[record];
        status = tl_nvm_copy(part->home, slot->is_batch ? next : record_address(index, record), part->length);
        next += part->length;
    }
    if (status == TL_OK) {
        set_finished(slot, TL_OK);
        status = store_header(index);
    }
    if (status == TL_OK)
        status = tl_nvm_commit(TL_ATOMIC);
    if (status != TL_OK) {
        tl_nvm_discard();
        slot->state = state;
        slot->present = present;
        slot->finished = finished;
        slot->outcome = outcome;
    }
    return status;
}

/* The slot of a transaction for the originating process, to add a record; otherwise why not. */
static int32_t find_open(uint64_t transaction, uint32_t *index)
{
    *index = (uint32_t)(transaction % AW_SLOTS);
    if (!is_open)
        return AW_CLOSED;
    if (owners[*index] == 0 || owners[*index] != tl_process(tl_origin()))
        return AW_NOT_YOURS;
    return locked[*index] ? AW_BUSY : TL_OK;
}

/* The same, to do anything else. */
static int32_t find(uint64_t transaction, uint32_t *index)
{
    int32_t status = find_open(transaction, index);
    return status == TL_OK && writing[*index] ? AW_BUSY : status;
}

/* The answer about a transaction that is not in its slot any more. */
static int32_t past(const struct slot *slot, uint64_t transaction)
{
    if (transaction == slot->finished)
        return (int32_t)slot->outcome;
    return transaction < slot->finished ? AW_OLD : AW_UNKNOWN;
}

/* ---- The host's requests ---- */

static int32_t take_write(struct aw_write *write, uint32_t *index)
{
    int32_t status = tl_receive(write, sizeof *write);
    if (status == TL_OK)
        status = find_open(write->transaction, index);
    if (status == TL_OK && (write->record >= AW_RECORDS || tl_remaining() != write->length))
        status = TL_BAD_ARGUMENT;
#ifndef CANARY_FORGETFUL
    if (status == TL_OK && write->transaction <= slots[*index].finished)
        status = AW_OLD;
#endif
    if (status == TL_OK)
        status = tl_nvm_check(write->home, write->length, TL_WRITE);
    return status;
}

static int32_t log_write(void)
{
    struct aw_write write;
    uint32_t index;
    int32_t status = take_write(&write, &index);
    if (status != TL_OK)
        return status;
    struct slot *slot = &slots[index];
    if (slot->state == FREE) {
        slot->state = OPEN;
        slot->transaction = write.transaction;
        slot->present = 0;
        slot->is_batch = 0;
    } else if (slot->state != OPEN || slot->transaction != write.transaction) {
        return AW_BUSY;
    }
    writing[index]++;
    status = tl_receive_nvm(record_address(index, write.record), write.length);
    if (status == TL_OK)
        status = tl_nvm_commit(TL_CACHED);
    if (status == TL_OK) {
        slot->records[write.record].home = write.home;
        slot->records[write.record].length = write.length;
        slot->present |= 1u << write.record;
    }
    writing[index]--;
    return status;
}

TL_HANDLER(0, logwrite)
{
    tl_respond(log_write());
}

static int32_t finish_commit(uint32_t index);

static int32_t log_write_commit(void)
{
    struct aw_write write;
    uint32_t index;
    int32_t status = take_write(&write, &index);
    if (status != TL_OK)
        return status;
    struct slot *slot = &slots[index];
    if (slot->state != FREE || writing[index])
        return AW_BUSY;
    locked[index] = 1;
    struct slot before = *slot;
    uint32_t is_logged = write.home % TL_UNIT + write.length > TL_UNIT; /* rule 5 */
    status = tl_receive_nvm(is_logged ? record_address(index, 0) : write.home, write.length);
    slot->transaction = write.transaction;
    if (is_logged) {
        slot->records[0] = (struct aw_part){.home = write.home, .length = write.length};
        slot->present = 1;
        slot->is_batch = 0;
        slot->participants = SELF_BIT;
        slot->state = COMMITTED;
    } else {
        set_finished(slot, TL_OK);
    }
    if (status == TL_OK)
        status = store_header(index);
    if (status == TL_OK)
        status = tl_nvm_commit(TL_ATOMIC);
    if (status != TL_OK) {
        tl_nvm_discard();
        *slot = before;
    } else if (is_logged) {
        status = finish_commit(index);
    }
    locked[index] = 0;
    return status;
}

TL_HANDLER(2, logwritecommit)
{
    tl_respond(log_write_commit());
}

TL_HANDLER(3, abort_transaction)
{
    struct aw_commit request;
    uint32_t index;
    int32_t status = tl_receive(&request, sizeof request);
    if (status == TL_OK)
        status = find(request.transaction, &index);
    if (status == TL_OK) {
        struct slot *slot = &slots[index];
        if (slot->state == FREE || slot->transaction != request.transaction)
            status = past(slot, request.transaction);
        else if (slot->state == OPEN || (slot->state == PREPARED && slot->is_batch))
            forget(index); /* of a batch, the host decides until it has sent LOGWRITESCOMMIT */
        else
            status = AW_BUSY;
    }
    tl_respond(status);
}

/* ---- Two phases ---- */

/* What one processor asks another. */
struct order {
    uint64_t transaction;
    uint32_t coordinator;
    uint32_t unused;
};

/* Sends an order to all participants but this one, and returns those that did not answer TL_OK. */
static uint64_t tell(uint64_t participants, uint32_t handler, uint64_t transaction)
{
    uint32_t self = tl_processor(), count = 0;
    struct order order = {transaction, self, 0};
    int16_t tickets[64];
    uint64_t others = participants & ~(1ull << self), failed = 0;
    for (uint64_t left = others; left; left &= left - 1) {
        tl_request_start(tl_spu((uint32_t)__builtin_ctzll(left)), 0, handler);
        tl_request_append(&order, sizeof order);
        tickets[count++] = (int16_t)tl_request_finish();
    }
    count = 0;
    for (uint64_t left = others; left; left &= left - 1) {
        int16_t ticket = tickets[count++];
        if (ticket < 0 || tl_wait(ticket) != TL_OK)
            failed |= left & -left;
    }
    return failed;
}

/* The second phase: everybody plays, and this processor last. */
static int32_t finish_commit(uint32_t index)
{
    struct slot *slot = &slots[index];
    uint64_t left = slot->participants & ~SELF_BIT;
    for (int attempt = 0; attempt < 4 && left; attempt++)
        left = tell(left, AW_PLAY, slot->transaction);
    if (left)
        return AW_LATER;
    return play(index) == TL_OK ? TL_OK : AW_LATER;
}

static int32_t coordinate(uint32_t index, uint64_t participants)
{
    struct slot *slot = &slots[index];
    if (slot->state == COMMITTED)
        return finish_commit(index);
    int32_t status = tell(participants, AW_PREPARE, slot->transaction) ? AW_ABORTED : TL_OK;
#ifndef CANARY_UNFLUSHED
    if (status == TL_OK)
        status = tl_nvm_flush(); /* of the whole drive: all participants' slots and records */
#endif
    if (status == TL_OK) {
        slot->state = COMMITTED;
        slot->participants = participants;
        slot->coordinator = tl_processor();
#ifndef CANARY_UNDECIDED
        status = store_header(index);
        if (status == TL_OK)
            status = tl_nvm_commit(TL_FLUSHED);
#endif
        if (status == TL_OK)
            return finish_commit(index);
        tl_nvm_discard();
        slot->state = OPEN;
        return AW_BUSY; /* the drive failed, and whether it is committed shows after recovery */
    }
    tell(participants, AW_FORGET, slot->transaction);
    forget(index);
    return AW_ABORTED;
}

TL_HANDLER(1, commit)
{
    struct aw_commit request;
    uint32_t index;
    int32_t status = tl_receive(&request, sizeof request);
    if (status == TL_OK && !(request.participants & SELF_BIT))
        status = TL_BAD_ARGUMENT;
    if (status == TL_OK && tl_processors() < 64 && request.participants >> tl_processors())
        status = TL_BAD_ARGUMENT;
    if (status == TL_OK)
        status = find(request.transaction, &index);
    if (status == TL_OK) {
        struct slot *slot = &slots[index];
        if (slot->transaction != request.transaction || (slot->state != OPEN && slot->state != COMMITTED)) {
            status = past(slot, request.transaction);
            if (status == AW_ABORTED) /* a participant may not have heard of it */
                tell(request.participants, AW_FORGET, request.transaction);
        } else {
            locked[index] = 1;
            status = coordinate(index, request.participants);
            locked[index] = 0;
        }
    }
    tl_respond(status);
}

/* ---- Batches: all writes of a transaction on this processor in one request ---- */

/* Takes a batch up to its data, of which there are `bytes`. The slot is FREE, and has its records. */
static int32_t take_parts(const struct aw_batch *batch, struct slot *slot, uint32_t *bytes)
{
    if (batch->count - 1 >= AW_RECORDS)
        return TL_BAD_ARGUMENT;
    int32_t status = tl_receive(slot->records, batch->count * (uint32_t)sizeof slot->records[0]);
    *bytes = 0;
    for (uint32_t record = 0; record < batch->count && status == TL_OK; record++) {
        const struct aw_part *part = &slot->records[record];
        status = tl_nvm_check(part->home, part->length, TL_WRITE); /* no longer than a stripe */
        *bytes += part->length;
    }
    if (status == TL_OK && *bytes > AW_BATCH_BYTES)
        return TL_NO_ROOM;
    return status == TL_OK && *bytes != tl_remaining() ? TL_BAD_ARGUMENT : status;
}

/* How a batch finds its slot: free for it; in the state that the same batch has brought it to; or the answer is known. */
enum { NEW, HELD, ANSWERED };

/* Takes the head of a batch. */
static int take_head(struct aw_batch *batch, uint32_t *index, uint32_t held, int32_t *status)
{
    *status = tl_receive(batch, sizeof *batch);
    if (*status == TL_OK)
        *status = find(batch->transaction, index);
    if (*status != TL_OK)
        return ANSWERED;
    struct slot *slot = &slots[*index];
#ifndef CANARY_FORGETFUL
    if (batch->transaction <= slot->finished) {
        *status = past(slot, batch->transaction);
        return ANSWERED;
    }
#endif
    if (slot->state == FREE)
        return NEW;
    if (slot->state == held && slot->transaction == batch->transaction)
        return HELD;
    *status = AW_BUSY;
    return ANSWERED;
}

static int32_t log_writes(void)
{
    struct aw_batch batch;
    uint32_t index, bytes;
    int32_t status;
    if (take_head(&batch, &index, PREPARED, &status) != NEW)
        return status;
    struct slot *slot = &slots[index];
    status = take_parts(&batch, slot, &bytes);
    if (status != TL_OK)
        return status;
    locked[index] = 1;
    slot->state = PREPARED;
    slot->transaction = batch.transaction;
    slot->coordinator = batch.coordinator;
    slot->present = (1u << batch.count) - 1;
    slot->is_batch = 1;
    status = tl_receive_nvm(header_address(index) + AW_BATCH_AT, bytes);
    if (status == TL_OK)
        status = store_slot(index, batch.count);
    if (status == TL_OK)
        status = tl_nvm_commit(TL_CACHED);
    if (status != TL_OK) {
        tl_nvm_discard();
        slot->state = FREE;
        slot->present = 0;
    }
    locked[index] = 0;
    return status;
}

TL_HANDLER(4, logwrites)
{
    tl_respond(log_writes());
}

/* Stores the decision with this processor's own records. */
static int32_t decide(struct slot *slot, uint32_t index, const struct aw_batch *batch, uint32_t bytes)
{
    int32_t status = TL_OK;
#ifndef CANARY_UNFLUSHED
    if (batch->participants & ~SELF_BIT)
        status = tl_nvm_flush(); /* of the whole drive: all participants' slots and records */
#endif
    if (status == TL_OK)
        status = tl_receive_nvm(header_address(index) + AW_BATCH_AT, bytes);
    if (status != TL_OK)
        return status;
    slot->transaction = batch->transaction;
    slot->participants = batch->participants;
    slot->coordinator = tl_processor();
    slot->present = (1u << batch->count) - 1;
    slot->is_batch = 1;
    slot->state = COMMITTED;
#ifndef CANARY_UNDECIDED
    status = store_slot(index, batch->count);
    if (status == TL_OK)
        status = tl_nvm_commit(TL_ATOMIC);
#endif
    return status;
}

static int32_t log_writes_commit(void)
{
    struct aw_batch batch;
    uint32_t index, bytes;
    int32_t status;
    int found = take_head(&batch, &index, COMMITTED, &status);
    if (found == ANSWERED)
        return status;
    struct slot *slot = &slots[index];
    if (found == NEW) {
        if (!(batch.participants & SELF_BIT) || (tl_processors() < 64 && batch.participants >> tl_processors()))
            return TL_BAD_ARGUMENT;
        status = take_parts(&batch, slot, &bytes);
        if (status != TL_OK)
            return status;
        locked[index] = 1;
        status = decide(slot, index, &batch, bytes);
        if (status != TL_OK) {
            tl_nvm_discard();
            slot->state = FREE;
            slot->present = 0;
        }
    } else {
        locked[index] = 1;
    }
    if (status == TL_OK)
        status = finish_commit(index);
    locked[index] = 0;
    return status;
}

TL_HANDLER(5, logwritescommit)
{
    tl_respond(log_writes_commit());
}

/* Takes an order of another copy of this program about a transaction of the originating process. */
static int32_t take_order(struct order *order, uint32_t *index)
{
    if (tl_caller() == 0)
        return TL_NOT_ALLOWED;
    int32_t status = tl_receive(order, sizeof *order);
    return status == TL_OK ? find(order->transaction, index) : status;
}

TL_HANDLER(8, prepare)
{
    struct order order;
    uint32_t index;
    int32_t status = take_order(&order, &index);
    if (status == TL_OK) {
        struct slot *slot = &slots[index];
        if (slot->transaction != order.transaction || (slot->state != OPEN && slot->state != PREPARED)) {
            status = AW_UNKNOWN;
        } else {
            locked[index] = 1;
            slot->state = PREPARED;
            slot->coordinator = order.coordinator;
            status = store_header(index);
            if (status == TL_OK)
                status = tl_nvm_commit(TL_CACHED);
            locked[index] = 0;
        }
    }
    tl_respond(status);
}

TL_HANDLER(9, play_order)
{
    struct order order;
    uint32_t index;
    int32_t status = take_order(&order, &index);
    if (status == TL_OK) {
        struct slot *slot = &slots[index];
        if (slot->transaction != order.transaction || slot->state != PREPARED) {
            status = past(slot, order.transaction);
        } else {
            locked[index] = 1;
            status = play(index);
            locked[index] = 0;
        }
    }
    tl_respond(status);
}

TL_HANDLER(10, forget_order)
{
    struct order order;
    uint32_t index;
    int32_t status = take_order(&order, &index);
    if (status == TL_OK && slots[index].transaction == order.transaction &&
        (slots[index].state == OPEN || slots[index].state == PREPARED))
        status = forget(index);
    tl_respond(status);
}

/* ---- Recovery: the kernel sends each of these to all processors before the next ---- */

TL_HANDLER(11, query)
{
    struct order order;
    int32_t status = tl_caller() == 0 ? TL_NOT_ALLOWED : tl_receive(&order, sizeof order);
    if (status == TL_OK) {
        struct slot *slot = &slots[order.transaction % AW_SLOTS];
        status = slot->state == COMMITTED && slot->transaction == order.transaction ? TL_OK : AW_ABORTED;
    }
    tl_respond(status);
}

/* Reads what the slots were. */
TL_HANDLER(16, scan)
{
    int32_t status = tl_from_kernel() ? TL_OK : TL_NOT_ALLOWED;
    if (status == TL_OK)
        is_open = 0;
    for (uint32_t index = 0; index < AW_SLOTS && status == TL_OK; index++) {
        struct slot *slot = &slots[index];
        status = tl_nvm_read(slot, header_address(index), sizeof *slot);
        if (slot->magic != MAGIC)
            *slot = (struct slot){.magic = MAGIC};
        if (slot->state == OPEN)
            slot->state = FREE;
        locked[index] = 0;
        writing[index] = 0;
    }
    tl_respond(status);
}

/* Asks the coordinators of what is prepared. */
TL_HANDLER(17, resolve)
{
    int32_t status = tl_from_kernel() ? TL_OK : TL_NOT_ALLOWED;
    for (uint32_t index = 0; index < AW_SLOTS && status == TL_OK; index++) {
        struct slot *slot = &slots[index];
        if (slot->state != PREPARED)
            continue;
        struct order order = {slot->transaction, tl_processor(), 0};
        tl_request_start(tl_spu(slot->coordinator), 0, AW_QUERY);
        tl_request_append(&order, sizeof order);
#ifdef CANARY_PREPARED_IS_COMMITTED
        int32_t decision = TL_OK;
#else
        int32_t decision = tl_request_call();
#endif
        if (decision == TL_OK)
            status = play(index);
        else if (decision == AW_ABORTED)
            status = forget(index) == TL_OK ? tl_nvm_commit(TL_FLUSHED) : TL_DRIVE;
        else
            status = decision;
    }
    tl_respond(status);
}

/* Everybody has resolved: what was decided here is not asked for any more. */
TL_HANDLER(18, end_recovery)
{
    int32_t status = tl_from_kernel() ? TL_OK : TL_NOT_ALLOWED;
    for (uint32_t index = 0; index < AW_SLOTS && status == TL_OK; index++)
        if (slots[index].state == COMMITTED)
            status = play(index);
    if (status == TL_OK)
        is_open = 1;
    tl_respond(status);
}

TL_HANDLER(19, assign)
{
    struct aw_assign request;
    int32_t status = tl_from_kernel() ? tl_receive(&request, sizeof request) : TL_NOT_ALLOWED;
    if (status == TL_OK && request.slot >= AW_SLOTS)
        status = TL_BAD_ARGUMENT;
    if (status == TL_OK)
        owners[request.slot] = request.process;
    tl_respond(status);
}
