/*
 * Base-IO: the drive's reads and writes as a program. The host's kernel uses it as a block device (thesis, section 5.1.2).
 */
#include "io.h"

TL_THREADS(4, 256)

TL_HANDLER(0, read_block)
{
    if (tl_from_kernel())
        io_read(source);
    else
        tl_respond(TL_NOT_ALLOWED);
}

TL_HANDLER(1, write_block)
{
    if (tl_from_kernel())
        io_write();
    else
        tl_respond(TL_NOT_ALLOWED);
}

TL_HANDLER(2, flush)
{
    tl_respond(tl_from_kernel() ? io_flush() : TL_NOT_ALLOWED);
}
