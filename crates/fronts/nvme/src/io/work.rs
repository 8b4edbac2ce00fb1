//! The input and the result of a command's work.

use tantalum::Nanoseconds;

use crate::failure::Failure;
use crate::mailbox::Answer;

/// Whether a write is on flash before it is done (`FUA`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Force(pub bool);

/// The result of a command's work: its answer, and when the drive is done.
pub type Worked = Result<(Answer, Nanoseconds), Failure>;
