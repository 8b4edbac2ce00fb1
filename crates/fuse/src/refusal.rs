//! Errors of requests: the volume's errors as the error numbers that programs know.

use fuser::Errno;
use tantalum::Status;
use tantalum_volume::VolumeError;

/// Why a request failed, as an error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal(pub Errno);

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal(errno)
    }
}

impl From<VolumeError> for Refusal {
    fn from(error: VolumeError) -> Refusal {
        Refusal(errno_of(&error))
    }
}

fn errno_of(error: &VolumeError) -> Errno {
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
        VolumeError::Device(status) => errno_of_status(status),
        _ => Errno::EIO,
    }
}

fn errno_of_status(status: &Status) -> Errno {
    match status {
        Status::CapacityExceeded => Errno::ENOSPC,
        Status::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_volume::FileId;

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
            assert_eq!(Refusal::from(error.clone()), Refusal(errno), "{error}");
        }
    }
}
