//! The sectors of a disk.

/// The size of a sector, which a disk writes completely or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sector {
    /// 512 bytes, which every disk promises.
    #[default]
    Bytes512,
    /// 4 KiB, which most disks promise today.
    KiB4,
}

impl Sector {
    /// Its size in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Sector::Bytes512 => 512,
            Sector::KiB4 => 4096,
        }
    }

    /// The number of the sector at an offset of a file.
    pub(crate) fn of(self, offset: u64) -> u64 {
        offset / self.bytes() as u64
    }

    /// Bytes from an offset to the end of its sector.
    pub(crate) fn left(self, offset: u64) -> usize {
        self.bytes() - (offset % self.bytes() as u64) as usize
    }
}
