/*
 * Direct-IO: a process reads and writes the extents of its files without the file system (thesis, section 5.1.2). The drive
 * checks each access against the permissions that the host's driver installed for the process.
 */
#include "io.h"

TL_THREADS(4, 256)

TL_HANDLER(0, read_extent)
{
    io_read(source);
}

TL_HANDLER(1, write_extent)
{
    io_write();
}

TL_HANDLER(2, flush)
{
    tl_respond(io_flush());
}
