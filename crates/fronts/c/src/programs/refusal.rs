//! Which number C gets for each error of a drive with programs.

use tantalum::DeviceError;
use tantalum_spu::{InstallError, IoError, SpuError};

use crate::call::{Refusal, TANTALUM_INVALID, TANTALUM_NOT_FOUND, TANTALUM_POWER_LOST, TANTALUM_REFUSED};

impl From<SpuError> for Refusal {
    fn from(error: SpuError) -> Refusal {
        let number = match &error {
            SpuError::PowerLost => TANTALUM_POWER_LOST,
            SpuError::NoProgram(_) => TANTALUM_NOT_FOUND,
            SpuError::NoQueuePair { .. } => TANTALUM_REFUSED,
            SpuError::NoEndpoint(_)
            | SpuError::NoProcessor { .. }
            | SpuError::BodyTooLong { .. }
            | SpuError::NotGrantable { .. } => TANTALUM_INVALID,
        };
        Refusal(number, error.to_string())
    }
}

impl From<InstallError> for Refusal {
    fn from(error: InstallError) -> Refusal {
        let number = match &error {
            InstallError::PowerLost => TANTALUM_POWER_LOST,
            InstallError::DoesNotFit { .. } | InstallError::TooMany { .. } => TANTALUM_REFUSED,
            _ => TANTALUM_INVALID,
        };
        Refusal(number, error.to_string())
    }
}

impl From<IoError> for Refusal {
    fn from(error: IoError) -> Refusal {
        match error {
            IoError::Sending(error) => error.into(),
            error => Refusal(TANTALUM_REFUSED, error.to_string()),
        }
    }
}

impl From<DeviceError> for Refusal {
    fn from(error: DeviceError) -> Refusal {
        Refusal(TANTALUM_REFUSED, error.to_string())
    }
}
