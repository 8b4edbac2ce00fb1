//! Which errors say that an image is damaged: it was read, and holds what no drive, volume or file system writes.

use tantalum::{DeviceError, FormatError, MediumError, NandError};
use tantalum_ftl::FtlError;
use tantalum_lfs::LfsError;
use tantalum_volume::VolumeError;

/// Whether an image could not be opened because it is damaged.
pub fn of_device(error: &DeviceError) -> bool {
    match error {
        DeviceError::Medium(error) => of_medium(error),
        DeviceError::Nand(error) | DeviceError::Ftl(FormatError::Ftl(FtlError::Nand(error))) => {
            of_nand(error)
        }
        DeviceError::Ftl(FormatError::Ftl(FtlError::Damaged(_) | FtlError::Unreadable { .. })) => true,
        DeviceError::Ftl(_)
        | DeviceError::Profile(_)
        | DeviceError::Invalid(_)
        | DeviceError::Shutdown(_)
        | DeviceError::Interrupted => false,
    }
}

/// Whether a volume is damaged.
pub fn of_volume(error: &VolumeError) -> bool {
    matches!(error, VolumeError::Damaged { .. })
}

/// Whether a log-structured file system is damaged.
pub fn of_logs(error: &LfsError) -> bool {
    matches!(error, LfsError::Damaged { .. })
}

fn of_medium(error: &MediumError) -> bool {
    match error {
        MediumError::Truncated { .. }
        | MediumError::HeaderChecksum { .. }
        | MediumError::ImpossibleHeader { .. }
        | MediumError::DescriptionNotText { .. }
        | MediumError::BlockChecksum { .. }
        | MediumError::PageChecksum { .. }
        | MediumError::Tally { .. }
        | MediumError::TallyChecksum { .. } => true,
        MediumError::Nand(error) => of_nand(error),
        _ => false,
    }
}

fn of_nand(error: &NandError) -> bool {
    matches!(
        error,
        NandError::Uncorrectable { .. }
            | NandError::Erased { .. }
            | NandError::DataChecksum { .. }
            | NandError::NvmChecksum { .. }
    )
}
