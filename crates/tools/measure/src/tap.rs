//! Observes which units of a drive are written.

use std::sync::Arc;

use parking_lot::Mutex;
use tantalum::{Command, Lpn, Nanoseconds, UNIT_BYTES};
use tantalum_drive::{CommandRoute, Issued};

/// Units written since they were last taken: the first of each run, and their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tap(Arc<Mutex<Vec<(Lpn, u32)>>>);

impl Tap {
    /// Calls `visit` with each unit written since the last call, as often as it was written.
    pub fn take(&self, mut visit: impl FnMut(Lpn)) {
        for (first, units) in self.0.lock().drain(..) {
            (0..units).for_each(|unit| visit(Lpn(first.0 + unit)));
        }
    }
}

impl CommandRoute for Tap {
    /// Observes, and lets every command go to the drive.
    fn issue<'a>(&mut self, command: Command<'a>, _at_ns: Nanoseconds) -> Issued<'a> {
        let mut written = self.0.lock();
        match &command {
            Command::Write { lpn, data, .. }
            | Command::WriteFilled { lpn, data, .. }
            | Command::FsWrite { lpn, data, .. } => {
                written.push((*lpn, (data.len() / UNIT_BYTES) as u32));
            }
            Command::WriteWithMetadata { lpn, .. }
            | Command::WriteHinted { lpn, .. }
            | Command::TxWrite { lpn, .. } => written.push((*lpn, 1)),
            Command::WriteAtomic { writes } | Command::WriteBatch { writes, .. } => {
                written.extend(writes.iter().map(|(lpn, _)| (*lpn, 1)));
            }
            _ => {}
        }
        Issued::Declined(command)
    }
}
