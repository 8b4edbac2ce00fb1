//! Commands that are made to fail, so that tests see what becomes of a client whose command fails in the middle of its
//! own work.
//!
//! Each failure is one that a drive really reports, with what it says of the command's effect: see [`Status`].

use std::io::ErrorKind;
use std::path::PathBuf;

use tantalum_ftl::Lpn;
use tantalum_nand::{HostError, Nanoseconds, UNIT_BYTES};

use crate::command::{Command, Completion};
use crate::controller::{Device, Origin};
use crate::status::Status;

/// How a command fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandFailure {
    /// A change or a flush finds no flash: [`Status::CapacityExceeded`]. Nothing was changed.
    CapacityExceeded,
    /// No buffer is left: [`Status::OutOfBuffers`]. Nothing was changed.
    OutOfBuffers,
    /// A read finds a page that is uncorrectable: [`Status::Unreadable`], [`Status::RecordUnreadable`].
    Unreadable,
    /// The first half of a write's units are written, the others find no flash. A drive that remaps duplicates writes in
    /// several steps.
    WrittenInPart,
    /// [`Status::ReadOnly`], now and for all later changes.
    ReadOnly,
    /// Power fails before the command.
    PowerBefore,
    /// Power fails after the command has taken effect, before its client learns of it.
    PowerAfter,
    /// The host fails before a change or flush: [`Status::Host`]. The drive accepts no more changes.
    HostBefore,
    /// The host fails after a change or flush has taken effect.
    HostAfter,
}

impl CommandFailure {
    /// All ways in which a command can fail.
    pub const ALL: [CommandFailure; 9] = [
        CommandFailure::CapacityExceeded,
        CommandFailure::OutOfBuffers,
        CommandFailure::Unreadable,
        CommandFailure::WrittenInPart,
        CommandFailure::ReadOnly,
        CommandFailure::PowerBefore,
        CommandFailure::PowerAfter,
        CommandFailure::HostBefore,
        CommandFailure::HostAfter,
    ];

    /// Whether the client may go on afterwards, with the next command or by trying again.
    pub fn ends_nothing(self) -> bool {
        use CommandFailure::{CapacityExceeded, OutOfBuffers, Unreadable, WrittenInPart};
        matches!(self, CapacityExceeded | OutOfBuffers | Unreadable | WrittenInPart)
    }

    fn can_meet(self, command: &Command<'_>) -> bool {
        match self {
            CommandFailure::Unreadable => read_status(command).is_some(),
            CommandFailure::PowerBefore | CommandFailure::PowerAfter => true,
            CommandFailure::ReadOnly => command.changes_units(),
            CommandFailure::WrittenInPart => {
                matches!(command, Command::Write { data, .. } if data.len() > UNIT_BYTES)
            }
            CommandFailure::CapacityExceeded | CommandFailure::OutOfBuffers => {
                !command.reads() && !matches!(command, Command::Abort { .. })
            }
            CommandFailure::HostBefore | CommandFailure::HostAfter => !command.reads(),
        }
    }
}

/// The failure to come, and how many commands that it can meet come before.
#[derive(Clone, Debug)]
pub(crate) struct NextFailure {
    before: u64,
    failure: CommandFailure,
    then: Option<Box<NextFailure>>,
}

impl NextFailure {
    /// Whether it is this command that fails; otherwise it is counted.
    fn takes(&mut self, command: &Command<'_>) -> bool {
        let meets = self.failure.can_meet(command);
        let takes = meets && self.before == 0;
        self.before -= u64::from(meets && !takes);
        takes
    }
}

impl Device {
    /// The Nth command from now that can fail in this way does (1 is the next); `None` disarms it. For tests of clients.
    pub fn fail_command(&mut self, next: Option<(u64, CommandFailure)>) {
        self.fail_commands(next.as_slice());
    }

    /// As [`Device::fail_command`], one after the other, each counted from the one before it.
    pub fn fail_commands(&mut self, all: &[(u64, CommandFailure)]) {
        let then = |then, &(commands, failure): &(u64, CommandFailure)| {
            Some(Box::new(NextFailure { before: commands.max(1) - 1, failure, then }))
        };
        self.next_failure = all.iter().rev().fold(None, then);
    }

    /// Whether a failure is still to come, or goes on.
    pub fn fails_commands(&self) -> bool {
        self.next_failure.is_some()
    }

    /// Executes a command, unless it is the one to fail.
    #[cold]
    pub(crate) fn perform_or_fail(
        &mut self,
        command: &mut Command<'_>,
        origin: Origin,
        start_ns: Nanoseconds,
    ) -> Result<Completion, Status> {
        let taken = self.next_failure.as_mut().and_then(|next| next.takes(command).then_some(next.failure));
        let Some(failure) = taken else { return self.carry_out(command, origin, start_ns) };
        if failure != CommandFailure::ReadOnly {
            self.next_failure = self.next_failure.take().and_then(|next| next.then);
        }
        match failure {
            CommandFailure::CapacityExceeded => Err(Status::CapacityExceeded),
            CommandFailure::OutOfBuffers => Err(Status::OutOfBuffers { buffers: 0 }),
            CommandFailure::Unreadable => Err(read_status(command).expect("only reads meet it")),
            CommandFailure::ReadOnly => Err(Status::ReadOnly),
            CommandFailure::WrittenInPart => {
                if let Command::Write { lpn, data, fua, handle } = *command {
                    let half = &data[..data.len() / UNIT_BYTES / 2 * UNIT_BYTES];
                    self.carry_out(&mut Command::Write { lpn, data: half, fua, handle }, origin, start_ns)?;
                }
                Err(Status::CapacityExceeded)
            }
            CommandFailure::PowerBefore => {
                self.cut_power(start_ns);
                Err(Status::PowerLost)
            }
            CommandFailure::PowerAfter => {
                let completion = self.carry_out(command, origin, start_ns)?;
                self.cut_power(completion.done_ns);
                Err(Status::PowerLost)
            }
            CommandFailure::HostBefore => {
                let committed = self.units_to_commit(command);
                Err(self.host_fails(command, &committed))
            }
            CommandFailure::HostAfter => {
                let committed = self.units_to_commit(command);
                self.carry_out(command, origin, start_ns)?;
                Err(self.host_fails(command, &committed))
            }
        }
    }

    fn host_fails(&mut self, command: &Command<'_>, committed: &[Lpn]) -> Status {
        let status = Status::Host(HostError {
            path: PathBuf::from("no image"),
            action: "be changed",
            kind: ErrorKind::StorageFull,
            reason: "a test made the host fail".to_owned(),
        });
        self.note_failure(&status, command, committed);
        status
    }
}

/// What a read reports whose page is uncorrectable.
fn read_status(command: &Command<'_>) -> Option<Status> {
    match command {
        Command::Read { lpn, .. }
        | Command::ReadLater { lpn, .. }
        | Command::ReadWithMetadata { lpn, .. }
        | Command::TxRead { lpn, .. } => Some(Status::Unreadable { lpn: *lpn }),
        Command::KvGet { namespace, key, .. } => {
            Some(Status::RecordUnreadable { namespace: *namespace, key: *key })
        }
        _ => None,
    }
}
