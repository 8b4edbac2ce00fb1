/* Answers every request at once: what a round trip costs. */
#include "tantalum_spu.h"

TL_THREADS(4, 256)

TL_HANDLER(0, echo)
{
    uint32_t words[2];
    if (tl_remaining() >= sizeof words)
        tl_receive(words, sizeof words);
    tl_respond(TL_OK);
}
