/*
 * Walks a B+tree: one request of the host instead of one for each level. A node is read by the processor that owns it; when a
 * child is elsewhere, the walk goes on there. The last one sends the value to the originating endpoint.
 */
#include "tantalum_spu.h"

#define NODE_BYTES 1024u
#define ENTRIES ((NODE_BYTES - 8u) / 16u)
#define DEEPEST 16u

TL_THREADS(4, 1408)

enum { WALK = 0 };
enum { WALK_DONE = 0 }; /* the host's handler */

/* An inner node's entries are the least keys of its children, with their addresses; a leaf's are keys and values. */
struct node {
    uint32_t level; /* 0 for a leaf */
    uint32_t count;
    struct {
        uint64_t key;
        uint64_t value;
    } entries[ENTRIES];
};

struct walk {
    uint64_t node;
    uint64_t key;
    uint32_t tag; /* chosen by the host */
    uint32_t depth;
};

struct result {
    uint64_t key;
    uint64_t value;
    uint32_t tag;
    int32_t status; /* TL_OK, 1 if there is no such key, or what went wrong */
};

/* The last entry whose key is not above `key`; -1 if there is none. */
static int32_t find(const struct node *node, uint64_t key)
{
    int32_t low = 0, high = (int32_t)node->count;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (node->entries[middle].key <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* Walks as far as this processor's nodes go. Returns 0 if the walk is over, 1 if it goes on elsewhere. */
static int step(struct walk *walk, struct result *result)
{
    struct node node;
    for (; walk->depth < DEEPEST; walk->depth++) {
        if (tl_owner(walk->node) != tl_processor())
            return 1;
        result->status = tl_nvm_read(&node, walk->node, sizeof node);
        if (result->status == TL_OK && node.count > ENTRIES)
            result->status = TL_BAD_ARGUMENT;
        if (result->status != TL_OK)
            return 0;
        int32_t at = find(&node, walk->key);
        if (at < 0 || (node.level == 0 && node.entries[at].key != walk->key)) {
            result->status = 1;
            return 0;
        }
        if (node.level == 0) {
            result->value = node.entries[at].value;
            return 0;
        }
        walk->node = node.entries[at].value;
    }
    result->status = TL_BAD_ARGUMENT; /* no tree is that deep */
    return 0;
}

TL_HANDLER(0, walk_tree)
{
    struct walk walk;
    int32_t status = tl_receive(&walk, sizeof walk);
    tl_respond(status);
    if (status != TL_OK)
        return;
    struct result result = {walk.key, 0, walk.tag, TL_OK};
    if (step(&walk, &result)) {
        tl_request_start(tl_spu(tl_owner(walk.node)), 0, WALK);
        tl_request_append(&walk, sizeof walk);
        result.status = tl_request_call(); /* the other one answers before it walks */
        if (result.status == TL_OK)
            return;
    }
    tl_request_start(tl_origin(), 0, WALK_DONE);
    tl_request_append(&result, sizeof result);
    tl_request_finish();
}
