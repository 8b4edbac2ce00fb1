//! How a request fails: with an error number that programs know.

use fuser::Errno;

/// Why a request failed, as an error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal(pub Errno);

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal(errno)
    }
}

impl From<tantalum_filesystem::Errno> for Refusal {
    fn from(errno: tantalum_filesystem::Errno) -> Refusal {
        Refusal(Errno::from_i32(errno as i32))
    }
}
