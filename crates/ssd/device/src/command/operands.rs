//! The units that a command names. Whether the drive has them can be checked without the drive's state.

use tantalum_ftl::{Handle, KvRecord, Lpn, ShareRange};

use super::Command;

/// The units that a command names, and the bytes that it brings or takes for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operands<'c> {
    /// No units.
    Nothing,
    /// A range without data.
    Range { lpn: Lpn, units: u32 },
    /// As many units as there are bytes, placed with a handle.
    Units { lpn: Lpn, bytes: usize, handle: Option<Handle> },
    /// As many units of a zone as there are bytes. Whether it has them depends on its state.
    Zoned { bytes: usize },
    /// One unit.
    Unit { lpn: Lpn, bytes: usize },
    /// A page of a hinted log.
    Hinted { lpn: Lpn, bytes: usize, home: Option<Lpn> },
    /// Ranges that take over mappings.
    Shares(&'c [ShareRange]),
    /// A range that takes over the mapping of another one.
    Move { src: Lpn, dst: Lpn, units: u32 },
    /// Scattered units, all or nothing.
    Scattered(&'c [(Lpn, &'c [u8])]),
}

impl Command<'_> {
    /// The units that it names.
    #[inline]
    pub(crate) fn operands(&self) -> Operands<'_> {
        match *self {
            Command::Read { lpn, ref data } | Command::ReadLater { lpn, ref data, .. } => {
                Operands::Units { lpn, bytes: data.len(), handle: None }
            }
            Command::Write { lpn, data, handle, .. } | Command::WriteFilled { lpn, data, handle, .. } => {
                Operands::Units { lpn, bytes: data.len(), handle }
            }
            Command::FsWrite { lpn, data, .. } => Operands::Units { lpn, bytes: data.len(), handle: None },
            Command::ReadWithMetadata { lpn, ref data, .. } | Command::TxRead { lpn, ref data, .. } => {
                Operands::Unit { lpn, bytes: data.len() }
            }
            Command::WriteWithMetadata { lpn, data, .. } | Command::TxWrite { lpn, data, .. } => {
                Operands::Unit { lpn, bytes: data.len() }
            }
            Command::WriteHinted { lpn, data, ref hint, .. } => {
                Operands::Hinted { lpn, bytes: data.len(), home: hint.home }
            }
            Command::WriteZeroes { lpn, units } | Command::Trim { lpn, units } => {
                Operands::Range { lpn, units }
            }
            Command::Share { ranges, .. } => Operands::Shares(ranges),
            Command::Remap { src, dst, units } => Operands::Move { src, dst, units },
            Command::WriteAtomic { writes } | Command::WriteBatch { writes, .. } => {
                Operands::Scattered(writes)
            }
            Command::ZoneRead { ref data, .. } => Operands::Zoned { bytes: data.len() },
            Command::ZoneWrite { data, .. } | Command::ZoneAppend { data, .. } => {
                Operands::Zoned { bytes: data.len() }
            }
            Command::Flush
            | Command::Begin { .. }
            | Command::Commit { .. }
            | Command::Abort { .. }
            | Command::BeginLog { .. }
            | Command::ReadFileList { .. }
            | Command::ListFiles { .. }
            | Command::ClearFileLists { .. }
            | Command::CreateNamespace { .. }
            | Command::DeleteNamespace { .. }
            | Command::KvPut { .. }
            | Command::KvGet { .. }
            | Command::KvExists { .. }
            | Command::KvDelete { .. }
            | Command::KvList { .. }
            | Command::ZoneManage { .. } => Operands::Nothing,
        }
    }

    /// The records that it puts: those of commands with [`Work::Puts`](super::Work::Puts).
    pub(crate) fn puts(&self) -> &[KvRecord<'_>] {
        match self {
            Command::KvPut { records } | Command::WriteBatch { records, .. } => records,
            _ => &[],
        }
    }
}
