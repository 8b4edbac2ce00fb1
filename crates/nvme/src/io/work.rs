//! What the work of a command takes and gives.

use tantalum::Nanoseconds;

use crate::failure::Failure;
use crate::mailbox::Answer;

/// Whether a write is on flash before it is done (`FUA`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Force(pub bool);

/// What the work of a command comes to: its answer, and when the drive is done.
pub type Worked = Result<(Answer, Nanoseconds), Failure>;
