/*
 * Adds to a counter in non-volatile memory, and answers with its old value: a program that is composed from another. The store
 * goes through Atomic-Writes, which the host's intercall table lets it call, so it is durable and happens once.
 */
#include "atomic_writes.h"

/* one at a time, so that nothing comes between reading and storing */
TL_THREADS(1, 512)

struct fetch_add {
    uint64_t transaction; /* of the process, as for AW_LOGWRITECOMMIT */
    uint64_t address;
    uint32_t by;
    uint32_t atomic_writes; /* the program's number */
};

TL_HANDLER(0, fetch_add)
{
    struct fetch_add request;
    struct {
        struct aw_write write;
        uint64_t value;
    } store;
    uint64_t old = 0;
    int32_t status = tl_receive(&request, sizeof request);
    if (status == TL_OK)
        status = tl_nvm_read(&old, request.address, sizeof old);
    if (status == TL_OK) {
        store.write = (struct aw_write){request.transaction, request.address, sizeof old, 0};
        store.value = old + request.by;
        status = tl_call(request.atomic_writes, AW_LOGWRITECOMMIT, &store, sizeof store, 0, 0, 0);
        if (status > 0)
            status = -100 - status; /* what Atomic-Writes has against it */
    }
    tl_respond(status == TL_OK ? (int32_t)(old & 0x7fffffff) : status);
}
