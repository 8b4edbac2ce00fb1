//! A way to a drive other than its commands: through a program in it, or anything else that reads and writes its units.

use std::fmt;

use tantalum::{Command, Completion, Nanoseconds, Status};

/// What became of a command.
#[derive(Debug)]
pub enum Issued<'a> {
    /// It was done, or failed.
    Done(Result<Completion, Status>),
    /// It does not go this way: the drive itself executes it.
    Declined(Command<'a>),
}

/// A way that some of a client's commands take. Its effect is complete when it returns, and later commands see it, whichever
/// way they take.
pub trait CommandRoute: fmt::Debug + Send + Sync {
    /// Executes a command that was issued at `at_ns`, or gives it back.
    fn issue<'a>(&mut self, command: Command<'a>, at_ns: Nanoseconds) -> Issued<'a>;
}
