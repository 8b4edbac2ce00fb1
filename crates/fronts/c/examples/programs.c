/* A drive with storage processors in this process: counts requests, serves data that a program sends, sees one end, cuts power.
   cc programs.c -ltantalum_c */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tantalum.h"

/* (module (func $forever (export "rpc_0") (param i32 i32) (loop (br 0)))) */
static const uint8_t endless[] = {
    0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x06, 0x01, 0x60, 0x02, 0x7f, 0x7f, 0x00,
    0x03, 0x02, 0x01, 0x00, 0x07, 0x09, 0x01, 0x05, 0x72, 0x70, 0x63, 0x5f, 0x30, 0x00, 0x00, 0x0a,
    0x09, 0x01, 0x07, 0x00, 0x03, 0x40, 0x0c, 0x00, 0x0b, 0x0b, 0x00, 0x11, 0x04, 0x6e, 0x61, 0x6d,
    0x65, 0x01, 0x0a, 0x01, 0x00, 0x07, 0x66, 0x6f, 0x72, 0x65, 0x76, 0x65, 0x72,
};

/* What Direct-IO takes, and what the data of a read come back with. */
struct io {
    uint64_t address;
    uint32_t length;
    uint32_t tag;
};

struct seen {
    size_t bytes;
    uint8_t first;
};

static void must(int result, int expected, const char *what) {
    if (result != expected) {
        fprintf(stderr, "%s: %d instead of %d: %s\n", what, result, expected, tantalum_last_error());
        exit(1);
    }
}

static uint32_t install(const struct tantalum_ssd *ssd, uint32_t process, const char *name) {
    const uint8_t *module = NULL;
    size_t bytes = 0;
    uint32_t program = 0;

    must(tantalum_ssd_shipped(name, &module, &bytes), TANTALUM_OK, "shipped");
    must(tantalum_ssd_install(ssd, process, module, bytes, true, 0, 0, &program), TANTALUM_OK, "install");
    return program;
}

static uint32_t open_endpoint(const struct tantalum_ssd *ssd, uint32_t *process) {
    uint32_t endpoint = 0;

    must(tantalum_ssd_open_endpoint(ssd, process, &endpoint), TANTALUM_OK, "open an endpoint");
    return endpoint;
}

static void read_done(void *context, const struct tantalum_ssd_event *event, const uint8_t *body) {
    struct seen *seen = context;

    seen->bytes = event->body_bytes - sizeof(struct io);
    seen->first = body[sizeof(struct io)];
}

int main(int count, char **arguments) {
    static const uint64_t base = 3 << 20;
    static uint8_t block[20000], read[20000], body[9000];
    struct tantalum_ssd *ssd = NULL;
    struct tantalum_ssd_event event;
    struct tantalum_ssd_facts facts;
    struct seen seen = {0, 0};
    const struct tantalum_ssd_handler handlers[] = {{0, read_done}};
    const struct io io = {base, 8, 1};
    uint32_t kernel = TANTALUM_SSD_KERNEL, process = UINT32_MAX, page = 7, hits, direct, forever;
    uint32_t kernel_endpoint, endpoint, owner;
    int32_t answer = 0;
    uint64_t request = 0;

    if (count != 2) {
        fprintf(stderr, "programs IMAGE\n");
        return 2;
    }
    must(tantalum_ssd_open("no-such-drive", NULL, 0, &ssd), TANTALUM_INVALID, "an unknown profile");
    must(tantalum_ssd_open("tlc-nvme", arguments[1], 64 << 20, &ssd), TANTALUM_OK, "open");
    kernel_endpoint = open_endpoint(ssd, &kernel);
    endpoint = open_endpoint(ssd, &process);

    /* a program with static variables */
    hits = install(ssd, process, "hits");
    for (int index = 0; index < 3; index++)
        must(tantalum_ssd_ask(ssd, endpoint, 3, hits, 0, (const uint8_t *)&page, sizeof(page), &answer), TANTALUM_OK,
             "ask");
    printf("page %" PRIu32 " was asked for %" PRId32 " times\n", page, answer);
    must(tantalum_ssd_ask(ssd, endpoint, 99, hits, 0, NULL, 0, &answer), TANTALUM_INVALID, "an unknown processor");
    must(tantalum_ssd_ask(ssd, 0x80000003, 0, hits, 0, NULL, 0, &answer), TANTALUM_INVALID, "a forged endpoint");

    /* data that a program sends, with the right to them and without */
    direct = install(ssd, kernel, "direct_io");
    memset(block, 7, sizeof(block));
    must(tantalum_ssd_write(ssd, kernel_endpoint, direct, base, block, sizeof(block)), TANTALUM_OK, "write");
    must(tantalum_ssd_flush(ssd, kernel_endpoint, direct), TANTALUM_OK, "flush");
    must(tantalum_ssd_read_facts(ssd, &facts), TANTALUM_OK, "facts");
    owner = (uint32_t)(base / facts.stripe_bytes % facts.processors);
    must(tantalum_ssd_ask(ssd, endpoint, owner, direct, 0, (const uint8_t *)&io, sizeof(io), &answer), TANTALUM_OK, "ask");
    printf("without the right: %" PRId32 "; ", answer);
    must(tantalum_ssd_receive(ssd, endpoint, &event, body, sizeof(body)), TANTALUM_OK, "receive");
    if (event.kind != TANTALUM_SSD_PERMISSION || event.is_granted)
        return 1;
    must(tantalum_ssd_grant(ssd, process, base, base + sizeof(block), TANTALUM_SSD_READ), TANTALUM_OK, "grant");
    must(tantalum_ssd_send(ssd, endpoint, owner, direct, 0, (const uint8_t *)&io, sizeof(io), facts.now_ns, &request),
         TANTALUM_OK, "send");
    do {
        must(tantalum_ssd_serve(ssd, endpoint, handlers, 1, &seen, &event, body, sizeof(body)), TANTALUM_OK, "serve");
        if (event.kind == TANTALUM_SSD_ANSWER && (event.request != request || event.status != 0))
            return 1;
    } while (event.kind != TANTALUM_SSD_NOTHING);
    printf("with it, %zu bytes that begin with %u\n", seen.bytes, seen.first);

    /* a program that never ends */
    must(tantalum_ssd_install(ssd, process, endless, sizeof(endless), false, 0, 0, &forever), TANTALUM_OK, "install");
    must(tantalum_ssd_ask(ssd, endpoint, 0, forever, 0, NULL, 0, &answer), TANTALUM_OK, "ask");
    must(tantalum_ssd_receive(ssd, endpoint, &event, body, sizeof(body)), TANTALUM_OK, "receive");
    if (answer != -8 || event.kind != TANTALUM_SSD_ENDED)
        return 1;
    printf("program %" PRIu32 " was ended: %.*s\n", event.program, (int)event.body_bytes, (const char *)body);

    /* power goes; programs are installed again */
    must(tantalum_ssd_cut_power(ssd), TANTALUM_OK, "cut the power");
    must(tantalum_ssd_ask(ssd, endpoint, 3, hits, 0, NULL, 0, &answer), TANTALUM_POWER_LOST, "without power");
    must(tantalum_ssd_receive(ssd, endpoint, &event, body, sizeof(body)), TANTALUM_OK, "receive");
    if (event.kind != TANTALUM_SSD_POWER_LOST)
        return 1;
    must(tantalum_ssd_power_on(ssd, 17), TANTALUM_OK, "power on");
    direct = install(ssd, kernel, "direct_io");
    must(tantalum_ssd_read(ssd, kernel_endpoint, direct, base, read, sizeof(read)), TANTALUM_OK, "read");
    printf("after a power cut the data are %s\n", memcmp(read, block, sizeof(read)) == 0 ? "there" : "gone");
    must(tantalum_ssd_close(ssd), TANTALUM_OK, "close");
    return 0;
}
