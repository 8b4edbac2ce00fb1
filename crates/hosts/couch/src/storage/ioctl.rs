//! The ioctls of a mounted Tantalum volume, as `crates/fronts/fuse/include/tantalum_ioctl.h` describes them.

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;
use zerocopy::{Immutable, IntoBytes};

use super::ShareRange;

/// Ranges in one commit.
pub(super) const MOST_RANGES: u32 = 409;

const READ: u64 = 2;
const WRITE: u64 = 1;

/// `struct tantalum_range`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Range {
    from: u64,
    from_offset: u64,
    to: u64,
    to_offset: u64,
    bytes: u64,
}

/// The number of one of Tantalum's ioctls, as `_IOC` makes it.
const fn request(direction: u64, number: u64, bytes: usize) -> u64 {
    direction << 30 | (bytes as u64) << 16 | (b't' as u64) << 8 | number
}

/// The volume's token for the file; none if this is not a file of a mounted volume.
#[allow(unsafe_code)]
pub(super) fn token(file: &File) -> Option<u64> {
    let mut token = 0_u64;
    // SAFETY: the request's number says that eight bytes are written, and `token` has as many.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request(READ, 1, 8) as _, &raw mut token) };
    (result == 0).then_some(token)
}

/// Makes ranges of a file read as others of it do, all or nothing.
#[allow(unsafe_code)]
pub(super) fn commit(file: &File, token: u64, ranges: &[ShareRange]) -> Result<(), Errno> {
    if ranges.len() > MOST_RANGES as usize {
        return Err(Errno::E2BIG);
    }
    let range = |range: &ShareRange| Range {
        from: token,
        from_offset: range.from,
        to: token,
        to_offset: range.to,
        bytes: range.bytes,
    };
    let ranges: Vec<Range> = ranges.iter().map(range).collect();
    let bytes = ranges.as_bytes();
    // SAFETY: the request's number says that `bytes.len()` bytes are read, and there are as many.
    let result =
        unsafe { libc::ioctl(file.as_raw_fd(), request(WRITE, 2, bytes.len()) as _, bytes.as_ptr()) };
    Errno::result(result).map(drop)
}
