/*
 * Requests beyond POSIX for files on a mounted Tantalum volume: they commit or exchange ranges of files in one step, by
 * changing the drive's mapping instead of writing data (SHARE).
 *
 * Files are named by tokens. A program asks for the token of each of its open files. The token is valid until that file
 * is closed, and allows what the file was opened for: reading for `from`, writing for `to`. Whoever has a token may use
 * it.
 *
 * All offsets and lengths are in bytes and whole units of 4096; ranges lie within their files.
 *
 * Errors: EBADF for a token that names no open file, or one opened for something else; EINVAL for ranges that are
 * empty, not whole units, beyond a file's end or overlapping, and for any other invalid argument; E2BIG, whatever else
 * may be wrong, for more units than the drive shares in one step (nothing was done; do it in parts); ENOTTY where no
 * Tantalum volume is mounted; EOPNOTSUPP on a mount with --write-back; EIO when the drive has no power.
 */
#ifndef TANTALUM_IOCTL_H
#define TANTALUM_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

struct tantalum_range {
    __u64 from;        /* token of the source file */
    __u64 from_offset;
    __u64 to;          /* token of the destination file */
    __u64 to_offset;
    __u64 bytes;
};

/* Maximum number of ranges in one commit: an ioctl's argument has less than 16 KiB. */
#define TANTALUM_MOST_RANGES 409

/* The token of the file that this is called on. */
#define TANTALUM_TOKEN _IOR('t', 1, __u64)

/*
 * Each of `n` ranges of `to` reads as its range of `from` does; `from` does not change. All or nothing, and durable
 * when it returns. The argument is an array of `n` struct tantalum_range.
 */
#define TANTALUM_COMMIT(n) _IOC(_IOC_WRITE, 't', 2, (n) * sizeof(struct tantalum_range))

/*
 * Two ranges swap contents. All or nothing, and durable when it returns. Both files must be open for reading and writing.
 */
#define TANTALUM_EXCHANGE _IOW('t', 3, struct tantalum_range)

#endif
