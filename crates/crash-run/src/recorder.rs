//! Keeps recorded operations in memory, for the cuts.

use std::sync::Arc;

use parking_lot::Mutex;
use tantalum_record::{Event, Sink, Stamped};

use crate::operation::{Operation, Recording};

/// The recording, shared by the recorder and the thread that waits for the program.
pub(crate) type Shared = Arc<Mutex<Recording>>;

/// Keeps the operations that a power cut can undo.
pub(crate) struct Kept(pub Shared);

impl Sink for Kept {
    fn take(&mut self, stamped: Stamped<'_>) {
        let operation = match stamped.event {
            Event::Done(operation) => operation,
            Event::Wrote { file, offset, data, .. } => Operation::Write(file, offset, data.into()),
            Event::Punched { file, offset, bytes } => {
                Operation::Zero { file, offset, bytes, keep_size: true }
            }
            _ => return,
        };
        self.0.lock().operations.push(operation);
    }

    /// Without moves, programs fall back to writing.
    fn takes_moves(&self) -> bool {
        false
    }
}
