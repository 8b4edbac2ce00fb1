//! Conversions between the kernel's types for files and the file system's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use nix::libc;
use tantalum::UNIT_BYTES;
use tantalum_filesystem::{FileId, FileKind, Metadata, Timestamp};

use crate::refusal::Refusal;

/// The unit in which `stat` counts blocks.
const STAT_BLOCK: u64 = 512;

/// The kernel's number for the root is 1.
pub(crate) fn inode_number(file: FileId) -> INodeNo {
    INodeNo(file.0.into())
}

/// The file that the kernel's number stands for.
pub(crate) fn file_of(inode: INodeNo) -> Result<FileId, Refusal> {
    let number = u32::try_from(inode.0).map_err(|_| Errno::ESTALE)?;
    Ok(FileId(number))
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Folder => FileType::Directory,
        FileKind::SymbolicLink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// What `mknod` creates.
pub(crate) fn kind_of_mode(mode: u32) -> Result<FileKind, Refusal> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Ok(FileKind::File),
        libc::S_IFIFO => Ok(FileKind::Fifo),
        libc::S_IFSOCK => Ok(FileKind::Socket),
        libc::S_IFCHR => Ok(FileKind::CharDevice),
        libc::S_IFBLK => Ok(FileKind::BlockDevice),
        _ => Err(Errno::EINVAL.into()),
    }
}

pub(crate) fn permissions_of_mode(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// What `stat` shows.
pub(crate) fn attributes(file: FileId, metadata: &Metadata) -> FileAttr {
    FileAttr {
        ino: inode_number(file),
        size: metadata.size,
        blocks: metadata.units * (UNIT_BYTES as u64 / STAT_BLOCK),
        atime: system_time(metadata.accessed),
        mtime: system_time(metadata.modified),
        ctime: system_time(metadata.changed),
        crtime: system_time(metadata.created),
        kind: file_type(metadata.kind),
        perm: metadata.permissions,
        nlink: metadata.links,
        uid: metadata.owner,
        gid: metadata.group,
        rdev: metadata.device_number,
        blksize: UNIT_BYTES as u32,
        flags: 0,
    }
}

/// The time now.
pub(crate) fn now() -> Timestamp {
    timestamp(SystemTime::now())
}

/// A time given by a program.
pub(crate) fn given_time(time: TimeOrNow) -> Timestamp {
    match time {
        TimeOrNow::SpecificTime(time) => timestamp(time),
        TimeOrNow::Now => now(),
    }
}

pub(crate) fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let seconds = -(before.as_secs() as i64);
            match before.subsec_nanos() {
                0 => Timestamp { seconds, nanoseconds: 0 },
                nanoseconds => Timestamp { seconds: seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
            }
        }
    }
}

fn system_time(time: Timestamp) -> SystemTime {
    let nanoseconds = Duration::from_nanos(time.nanoseconds.into());
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = match time.seconds {
        0.. => UNIX_EPOCH.checked_add(seconds),
        _ => UNIX_EPOCH.checked_sub(seconds),
    };
    whole.and_then(|whole| whole.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_were_also_before_1970() {
        for (seconds, nanoseconds) in [(0, 0), (1, 5), (-1, 999_999_999), (-2, 0), (4_000_000_000, 7)] {
            let time = Timestamp { seconds, nanoseconds };
            assert_eq!(timestamp(system_time(time)), time);
        }
    }

    #[test]
    fn kinds_come_from_modes() {
        assert_eq!(kind_of_mode(libc::S_IFSOCK | 0o600).unwrap(), FileKind::Socket);
        assert_eq!(kind_of_mode(0o644).unwrap(), FileKind::File);
        assert!(kind_of_mode(libc::S_IFDIR | 0o755).is_err());
    }

    #[test]
    fn a_number_beyond_32_bits_is_stale() {
        assert!(file_of(INodeNo(1 << 32)).is_err());
        assert_eq!(file_of(INodeNo::ROOT).unwrap(), FileId::ROOT);
    }
}
