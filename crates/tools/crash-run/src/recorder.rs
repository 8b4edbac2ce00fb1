//! Keeps recorded operations in memory, for the cuts.

use tantalum_record::{Event, Sink, Stamped};

use crate::acks::Shared;
use crate::operation::Operation;

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
            Event::CallEnded => return self.0.lock().call_ends(),
            _ => return,
        };
        self.0.lock().done(operation);
    }

    /// Without moves, programs fall back to writing.
    fn takes_moves(&self) -> bool {
        false
    }
}
