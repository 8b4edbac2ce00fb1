/*
 * What a program inside a Tantalum drive can ask of the drive.
 *
 * A program is a set of handlers. The drive calls a handler when a request for it arrives at a processor, and every
 * processor has its own copy of the program with its own static variables. There is no heap and no standard library.
 * docs/programs.md explains the model; this file is the reference.
 */
#ifndef TANTALUM_SPU_H
#define TANTALUM_SPU_H

typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;

/* What functions and requests answer. Handlers answer what they like; 0 and above is for
   their own meanings. */
enum {
    TL_OK = 0,
    TL_NOT_DELIVERED = -1, /* the receiver had no room; nothing of the request arrived */
    TL_NO_PROGRAM = -2,    /* no such processor, endpoint, program or record */
    TL_NO_HANDLER = -3,    /* the program has no such handler */
    TL_NOT_ALLOWED = -4,   /* the sender may not send that there */
    TL_NO_PERMISSION = -5, /* the originating process may not access this range, or the drive has to ask the host */
    TL_NOT_LOCAL = -6,     /* the range is not within one stripe of this processor */
    TL_NO_ROOM = -7,       /* a limit of docs/programs.md */
    TL_ENDED = -8,         /* the program ended before it answered */
    TL_TIMEOUT = -9,       /* no answer in time */
    TL_BAD_ARGUMENT = -10, /* an argument that can never be right */
    TL_DRIVE = -11,        /* the drive below failed */
    TL_NO_ANSWER = -12,    /* the handler returned without an answer */
    TL_SHORT = -13         /* the body has fewer bytes left, or the value is longer than the room for it */
};

/* Rights to a range. */
enum { TL_READ = 1, TL_WRITE = 2 };

/* How stores reach non-volatile memory. */
enum {
    TL_CACHED = 0, /* as a write does: durable with the next flush, each unit of 4 KiB whole */
    TL_FLUSHED = 1, /* durable when it returns, each unit whole */
    TL_ATOMIC = 2  /* durable when it returns, all or nothing; until then, a store of others to a part of one of these units may
                      make what it finds there durable on its own */
};

#define TL_STRIPE 8192u
#define TL_UNIT 4096u

#define TL_IMPORT(name) __attribute__((import_module("tantalum"), import_name(#name)))

/* Defines the handler with this number, 0 to 63. `source` sent the request, whose body is `length` bytes. */
#define TL_HANDLER(number, name) TL_HANDLER_(number, name)
#define TL_HANDLER_(number, name)                                                                     \
    __attribute__((export_name("rpc_" #number))) void name(uint32_t source, uint32_t length)

/* Lets `count` requests be in progress at once, each with a stack of `bytes`. Without it, there is one, on the stack that
   the linker lays out. With two or more, one is kept for requests of other processors. They change only while one of
   them waits: in tl_wait, tl_call, tl_kv_get, tl_kv_next, tl_kv_scan, and in accesses to non-volatile memory. */
#define TL_THREADS(count, bytes)                                                                      \
    static char tl_stacks_[count][bytes] __attribute__((aligned(16)));                                \
    __attribute__((export_name("tl_stack"))) uint32_t tl_stack_(uint32_t thread)                      \
    {                                                                                                 \
        return thread < (count) ? (uint32_t)(unsigned long)&tl_stacks_[thread][bytes] : 0;            \
    }

/* ---- The request that this handler is called for ---- */

/* Moves the next bytes of the body to local memory. TL_SHORT if it has fewer left; then none move. */
TL_IMPORT(receive) int32_t tl_receive(void *to, uint32_t length);
/* Moves the next bytes of the body to non-volatile memory, as tl_nvm_write does. */
TL_IMPORT(receive_nvm) int32_t tl_receive_nvm(uint64_t address, uint32_t length);
/* Bytes of the body that are left. */
TL_IMPORT(remaining) uint32_t tl_remaining(void);
/* Answers the request, once. The stores made so far take effect first, as with TL_CACHED, and the answer leaves when they are
   acknowledged. The handler may go on after it. */
TL_IMPORT(respond) int32_t tl_respond(int32_t status);
/* Adds bytes to what a tl_call gets back; for other requests it does nothing. */
TL_IMPORT(reply) int32_t tl_reply(const void *from, uint32_t length);
/* The endpoint for which all this is done. The drive sets it; it cannot be chosen. */
TL_IMPORT(origin) uint32_t tl_origin(void);
/* The program that sent the request, or 0 if an endpoint did. */
TL_IMPORT(caller) uint32_t tl_caller(void);

/* Whether the host's kernel is the origin: its endpoints have a zero in the highest bit. */
static inline int tl_from_kernel(void) { return (tl_origin() >> 31) == 0; }
/* The process of an endpoint. */
static inline uint32_t tl_process(uint32_t endpoint) { return endpoint >> 10; }

/* ---- Requests to processors and endpoints ---- */

/* The number of a processor, as a destination. */
static inline uint32_t tl_spu(uint32_t processor) { return 0x40000000u | processor; }

/* Begins a request. Discards one that was not finished. `program` is 0 for this program; endpoints ignore it. */
TL_IMPORT(request_start)
int32_t tl_request_start(uint32_t destination, uint32_t program, uint32_t handler);
/* Adds bytes of local memory to its body. */
TL_IMPORT(request_append) int32_t tl_request_append(const void *from, uint32_t length);
/* Adds bytes of non-volatile memory to its body. They are read when the request is finished, and do not pass through local
   memory. */
TL_IMPORT(request_append_nvm) int32_t tl_request_append_nvm(uint64_t address, uint32_t length);
/* Sends it, and goes on at once. Returns a ticket (0 or above) for tl_wait. The stores made so far take effect first, as
   with TL_CACHED. */
TL_IMPORT(request_finish) int32_t tl_request_finish(void);
/* Waits for the answer to a request; at most 50 ms. Requests to endpoints are answered by their arrival. */
TL_IMPORT(wait) int32_t tl_wait(int32_t ticket);

/* Sends the request and waits for the answer. */
static inline int32_t tl_request_call(void)
{
    int32_t ticket = tl_request_finish();
    return ticket < 0 ? ticket : tl_wait(ticket);
}

/* Calls a handler of another program on this processor, if the host allowed that. `out` gets the first `room` bytes of
   its tl_reply; their number, if `replied` is not 0. */
TL_IMPORT(call)
int32_t tl_call(uint32_t program, uint32_t handler, const void *in, uint32_t length, void *out, uint32_t room,
                uint32_t *replied);

/* ---- Non-volatile memory: only within one stripe of this processor at a time ---- */

/* Moves bytes to local memory, as this handler's own stores leave them. */
TL_IMPORT(nvm_read) int32_t tl_nvm_read(void *to, uint64_t address, uint32_t length);
/* Stores bytes. Stores take effect together: when the handler commits, responds, sends a request or returns. If the program
   faults before that, none of them do. */
TL_IMPORT(nvm_write) int32_t tl_nvm_write(uint64_t address, const void *from, uint32_t length);
/* Stores what non-volatile memory holds elsewhere. Both ranges are of this processor. */
TL_IMPORT(nvm_copy) int32_t tl_nvm_copy(uint64_t to, uint64_t from, uint32_t length);
/* Makes the stores take effect. */
TL_IMPORT(nvm_commit) int32_t tl_nvm_commit(uint32_t how);
/* Gives up the stores that have not taken effect. */
TL_IMPORT(nvm_discard) void tl_nvm_discard(void);
/* Makes durable what has taken effect in the whole drive. */
TL_IMPORT(nvm_flush) int32_t tl_nvm_flush(void);
/* Whether the origin has these rights to a range: TL_OK, TL_NO_PERMISSION or TL_NOT_LOCAL. */
TL_IMPORT(nvm_check) int32_t tl_nvm_check(uint64_t address, uint32_t length, uint32_t rights);
/* The address of stripe `index` of this processor's part of the program's own region; 0 if it has none there. */
TL_IMPORT(region) uint64_t tl_region(uint32_t index);

/* ---- Records of a key-value namespace ---- */

/* Moves a record's value to local memory. Returns its length; TL_SHORT if that is more than `room`, TL_NO_HANDLER never,
   TL_NO_PROGRAM if there is no such record. */
TL_IMPORT(kv_get)
int32_t tl_kv_get(uint32_t name_space, const void *key, uint32_t key_length, void *to, uint32_t room);
/* Moves the key after `key` in the drive's order (or the first, if `key_length` is 0) to `next`, of 16 bytes. Returns its
   length, 0 after the last. */
TL_IMPORT(kv_next)
int32_t tl_kv_next(uint32_t name_space, const void *key, uint32_t key_length, void *next);

/* A record of tl_kv_scan. After it come the first `most` bytes of its value, padded to a multiple of 8. */
struct tl_record {
    uint32_t key_length;
    uint32_t value_length; /* of the whole value */
    uint8_t key[16];
};
/* Moves the records after `key` (or the first ones, if `key_length` is 0) to `to`, each with at most `most` bytes of its value: as
   many as `room` holds, and at most 64. They are read at the same time. Returns their number, 0 after the last. */
TL_IMPORT(kv_scan)
int32_t tl_kv_scan(uint32_t name_space, const void *key, uint32_t key_length, void *to, uint32_t room, uint32_t most);

/* ---- This processor ---- */

TL_IMPORT(processor) uint32_t tl_processor(void);
TL_IMPORT(processors) uint32_t tl_processors(void);
/* Which processor owns an address. */
static inline uint32_t tl_owner(uint64_t address) { return (uint32_t)(address / TL_STRIPE % tl_processors()); }
/* Writes to the program's serial port, which the host reads. */
TL_IMPORT(print) void tl_print(const void *text, uint32_t length);
/* Adds to one of the program's eight counters, which the host reads. */
TL_IMPORT(count) void tl_count(uint32_t counter, uint32_t by);

#endif
