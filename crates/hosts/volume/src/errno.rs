//! The volume's errors as the numbers that programs know.

use tantalum::Status;
use tantalum_filesystem::Errno;

use crate::error::VolumeError;

impl From<VolumeError> for Errno {
    fn from(error: VolumeError) -> Errno {
        match error {
            VolumeError::NoSpace { .. } | VolumeError::TableFull { .. } => Errno::ENOSPC,
            VolumeError::TooFragmented { .. } | VolumeError::FileTooLarge { .. } => Errno::EFBIG,
            VolumeError::NameNotFound(_) => Errno::ENOENT,
            // The kernel names a file by its number: a missing one is stale.
            VolumeError::NoSuchFile(_) => Errno::ESTALE,
            VolumeError::NameExists(_) | VolumeError::AttributeExists { .. } => Errno::EEXIST,
            VolumeError::BadName { .. } => Errno::ENAMETOOLONG,
            VolumeError::BadTarget { bytes: 0, .. } => Errno::ENOENT,
            VolumeError::BadTarget { .. } => Errno::ENAMETOOLONG,
            VolumeError::NotAFolder(_) => Errno::ENOTDIR,
            VolumeError::IsAFolder(_) => Errno::EISDIR,
            VolumeError::FolderNotEmpty(_) => Errno::ENOTEMPTY,
            VolumeError::TooManyLinks { .. } => Errno::EMLINK,
            VolumeError::AttributeNotFound { .. } => Errno::ENODATA,
            VolumeError::AttributesTooLarge { .. } => Errno::ENOSPC,
            VolumeError::RangesTooLong { .. } => Errno::E2BIG,
            VolumeError::NotARegularFile(_)
            | VolumeError::NotASymbolicLink(_)
            | VolumeError::IntoItself(_)
            | VolumeError::BadRange { .. }
            | VolumeError::Unaligned { .. } => Errno::EINVAL,
            VolumeError::InTransaction { .. } => Errno::EBUSY,
            VolumeError::Device(Status::CapacityExceeded) => Errno::ENOSPC,
            VolumeError::Device(Status::ReadOnly | Status::WriteProtected(_)) => Errno::EROFS,
            _ => Errno::EIO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_filesystem::FileId;

    #[test]
    fn reasons_become_the_numbers_that_programs_expect() {
        let numbers = [
            (VolumeError::NoSpace { needed: 1, free: 0 }, Errno::ENOSPC),
            (VolumeError::Device(Status::CapacityExceeded), Errno::ENOSPC),
            (VolumeError::Device(Status::PowerLost), Errno::EIO),
            (VolumeError::Device(Status::ReadOnly), Errno::EROFS),
            (VolumeError::FolderNotEmpty(FileId::ROOT), Errno::ENOTEMPTY),
            (VolumeError::BadName { bytes: 300, most: 255 }, Errno::ENAMETOOLONG),
            (VolumeError::NotAVolume, Errno::EIO),
        ];
        for (error, errno) in numbers {
            assert_eq!(Errno::from(error.clone()), errno, "{error}");
        }
    }
}
