/* Counts requests for each of 64 pages. */
#include "tantalum_spu.h"

static uint32_t hits[64];

TL_HANDLER(0, hit)
{
    uint32_t page;
    int32_t status = tl_receive(&page, sizeof page);
    if (status != TL_OK || page >= 64)
        tl_respond(TL_BAD_ARGUMENT);
    else
        tl_respond((int32_t)++hits[page]);
}
