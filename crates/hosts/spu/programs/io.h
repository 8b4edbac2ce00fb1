/* Reads and writes of blocks: what Base-IO and Direct-IO have in common. A request is within one stripe. */
#ifndef IO_H
#define IO_H

#include "tantalum_spu.h"

/* What a request begins with, and what the data of a read come back with. */
struct io {
    uint64_t address;
    uint32_t length;
    uint32_t tag; /* chosen by the host */
};

enum { IO_READ = 0, IO_WRITE = 1, IO_FLUSH = 2 };

/* The host's handler for the data of a read. */
enum { IO_READ_DONE = 0 };

static inline void io_read(uint32_t source)
{
    struct io io;
    int32_t status = tl_receive(&io, sizeof io);
    if (status == TL_OK && io.length > TL_STRIPE)
        status = TL_NOT_LOCAL;
    if (status == TL_OK) {
        tl_request_start(source, 0, IO_READ_DONE);
        tl_request_append(&io, sizeof io);
        status = tl_request_append_nvm(io.address, io.length);
    }
    if (status == TL_OK) {
        /* the data go from non-volatile memory to the network; this processor does not wait for them */
        int32_t ticket = tl_request_finish();
        status = ticket < 0 ? ticket : TL_OK;
    }
    tl_respond(status);
}

static inline int32_t io_flush(void)
{
#ifdef CANARY_UNFLUSHED
    return TL_OK;
#else
    return tl_nvm_flush();
#endif
}

static inline void io_write(void)
{
    struct io io;
    int32_t status = tl_receive(&io, sizeof io);
    if (status == TL_OK)
        status = tl_receive_nvm(io.address, io.length);
    tl_respond(status);
}

#endif
