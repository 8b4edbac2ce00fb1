//! What a drive no longer answers for once a command has failed in the middle.
//!
//! A command that fails and leaves doubt ([`Status::leaves_doubt`]) stops the drive: it refuses every change with that status
//! until it is opened again. It goes on answering reads from what it has, except of what that command was to change, which
//! may be there completely, partly or not at all: such reads fail with the same status. So nobody sees half of a command, nor
//! the effect of a command that recovery may take back. Reads take no checkpoint any more ([`tantalum_ftl::Ftl::stop`]): it would make
//! that effect durable as it is.

use std::ops::Range;

use tantalum_ftl::{Key, Lpn, NamespaceId};
use tantalum_nand::UNIT_BYTES;

use crate::command::Command;
use crate::controller::{Device, Power};
use crate::status::Status;

/// Why a drive refuses changes, and what it does not read.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub status: Status,
    /// Units that the failed command was to change.
    units: Vec<Range<u64>>,
    /// Records that it was to change; without a key, all of a namespace.
    records: Vec<(NamespaceId, Option<Key>)>,
    /// Lists of files.
    lists: bool,
    /// Zones.
    zones: bool,
}

impl Doubt {
    /// Nothing is in doubt, but changes are refused.
    pub fn of_nothing(status: Status) -> Doubt {
        Doubt { status, units: Vec::new(), records: Vec::new(), lists: false, zones: false }
    }

    /// A command failed. `committed` are the units of the transaction that it was to commit.
    pub fn of_command(status: Status, command: &Command<'_>, committed: &[Lpn]) -> Doubt {
        let mut doubt = Doubt::of_nothing(status);
        doubt.units.extend(committed.iter().map(|lpn| range(*lpn, 1)));
        match *command {
            Command::Write { lpn, data, .. } | Command::WriteFilled { lpn, data, .. } => {
                doubt.units.push(range(lpn, data.len() / UNIT_BYTES));
            }
            Command::FsWrite { lpn, data, .. } => {
                doubt.units.push(range(lpn, data.len() / UNIT_BYTES));
                doubt.lists = true;
            }
            Command::WriteWithMetadata { lpn, .. } => doubt.units.push(range(lpn, 1)),
            Command::WriteHinted { lpn, ref hint, .. } => {
                doubt.units.extend([Some(lpn), hint.home].into_iter().flatten().map(|lpn| range(lpn, 1)));
            }
            Command::WriteZeroes { lpn, units } | Command::Trim { lpn, units } => {
                doubt.units.push(range(lpn, units as usize));
            }
            Command::Share { ranges, .. } => {
                doubt.units.extend(ranges.iter().map(|share| range(share.dst, share.units as usize)));
            }
            Command::Remap { src, dst, units } => {
                doubt.units.extend([src, dst].map(|lpn| range(lpn, units as usize)));
            }
            Command::WriteAtomic { writes } | Command::WriteBatch { writes, records: &[] } => {
                doubt.units.extend(writes.iter().map(|(lpn, _)| range(*lpn, 1)));
            }
            Command::WriteBatch { writes, records } => {
                doubt.units.extend(writes.iter().map(|(lpn, _)| range(*lpn, 1)));
                doubt.records.extend(records.iter().map(|record| (record.namespace, Some(record.key))));
            }
            Command::KvPut { records } => {
                doubt.records.extend(records.iter().map(|record| (record.namespace, Some(record.key))));
            }
            Command::KvDelete { namespace, key } => doubt.records.push((namespace, Some(key))),
            Command::DeleteNamespace { namespace } => doubt.records.push((namespace, None)),
            Command::ClearFileLists { .. } => doubt.lists = true,
            Command::ZoneWrite { .. } | Command::ZoneAppend { .. } | Command::ZoneManage { .. } => {
                doubt.zones = true;
            }
            // these read, or change nothing that can be read
            Command::Read { .. }
            | Command::ReadLater { .. }
            | Command::ReadWithMetadata { .. }
            | Command::TxRead { .. }
            | Command::KvGet { .. }
            | Command::KvExists { .. }
            | Command::KvList { .. }
            | Command::ZoneRead { .. }
            | Command::ReadFileList { .. }
            | Command::ListFiles { .. }
            | Command::Flush
            | Command::Begin { .. }
            | Command::TxWrite { .. }
            | Command::Commit { .. }
            | Command::Abort { .. }
            | Command::BeginLog { .. }
            | Command::CreateNamespace { .. } => {}
        }
        doubt
    }

    /// Whether a command reads what is in doubt. A transaction cannot be committed any more, and may have lost a write.
    fn concerns(&self, command: &Command<'_>) -> bool {
        let is_named = |namespace: NamespaceId, key: Option<Key>| {
            let mut records = self.records.iter();
            records.any(|(of, name)| *of == namespace && (key.is_none() || name.is_none() || key == *name))
        };
        match command {
            Command::Read { lpn, data } | Command::ReadLater { lpn, data, .. } => {
                self.has_any(range(*lpn, data.len() / UNIT_BYTES))
            }
            Command::ReadWithMetadata { lpn, .. } => self.has_any(range(*lpn, 1)),
            Command::TxRead { .. } => self.status.leaves_doubt(),
            Command::KvGet { namespace, key, .. } | Command::KvExists { namespace, key } => {
                is_named(*namespace, Some(*key))
            }
            Command::KvList { namespace, .. } => is_named(*namespace, None),
            Command::ReadFileList { .. } | Command::ListFiles { .. } => self.lists,
            Command::ZoneRead { .. } => self.zones,
            _ => false,
        }
    }

    fn has_any(&self, read: Range<u64>) -> bool {
        self.units.iter().any(|units| units.start < read.end && read.start < units.end)
    }
}

fn range(lpn: Lpn, units: usize) -> Range<u64> {
    u64::from(lpn.0)..u64::from(lpn.0) + units as u64
}

impl Device {
    /// Refuses every change from now on, until the drive is opened again.
    pub fn refuse_changes(&mut self, why: Status) {
        self.doubt.get_or_insert_with(|| Box::new(Doubt::of_nothing(why)));
    }

    /// Why the drive refuses every change until it is opened again, if it does: the host failed, or its own data are
    /// damaged. Reads go on, but for what the command that failed was to change.
    pub fn refuses_changes(&self) -> Option<&Status> {
        self.doubt.as_ref().map(|doubt| &doubt.status)
    }

    /// What ended the drive, if anything did: the failure after which it refuses every change, or the loss of power.
    pub fn ended(&self) -> Option<Status> {
        match self.refuses_changes() {
            _ if !self.has_power() => Some(Status::PowerLost),
            Some(status) if status.leaves_doubt() => Some(status.clone()),
            _ => None,
        }
    }

    pub(crate) fn check_doubt(&self) -> Result<(), Status> {
        self.refuses_changes().map_or(Ok(()), |status| Err(status.clone()))
    }

    /// Refuses a read of what is in doubt.
    #[inline]
    pub(crate) fn check_known(&self, command: &Command<'_>) -> Result<(), Status> {
        match &self.doubt {
            Some(doubt) if doubt.concerns(command) => Err(doubt.status.clone()),
            _ => Ok(()),
        }
    }

    /// The command failed; the units are those that it was to commit.
    #[cold]
    pub(crate) fn note_failure(&mut self, status: &Status, command: &Command<'_>, committed: &[Lpn]) {
        if status.leaves_doubt() && self.doubt.is_none() {
            self.doubt = Some(Box::new(Doubt::of_command(status.clone(), command, committed)));
            if let Power::On(engine) = &mut self.power {
                engine.ftl.stop();
            }
        }
    }
}
