//! Another way to a drive than its commands: by way of a program in it, or of anything else that reads and writes its units.

use std::fmt;

use tantalum::{Command, Completion, Nanoseconds, Status};

/// What became of a command.
#[derive(Debug)]
pub enum Issued<'a> {
    /// It was done, or failed.
    Done(Result<Completion, Status>),
    /// It does not go this way: the drive itself gets it.
    Back(Command<'a>),
}

/// A way that some of a client's commands go. What it does is done when it returns, and a later command sees it, whichever way
/// that goes.
pub trait Way: fmt::Debug + Send + Sync {
    /// Does a command that was given at `at_ns`, or gives it back.
    fn issue<'a>(&mut self, command: Command<'a>, at_ns: Nanoseconds) -> Issued<'a>;
}
