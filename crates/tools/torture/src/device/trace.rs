//! The actions of a run, line by line on standard error, for understanding a finding.

use tantalum::{Command, Completion, DeviceError, InFlight, RecoveryReport, Status};

/// A command as one line; none of commands that only read.
pub(super) fn of(command: &Command<'_>) -> Option<String> {
    (!command.reads()).then(|| command.to_string())
}

/// A command with its answer.
pub(super) fn answer(at_ns: u64, command: &str, answer: &Result<Completion, Status>) {
    match answer {
        Ok(completion) => eprintln!("{at_ns:>12} {command}; done {}", completion.done_ns),
        Err(status) => eprintln!("{at_ns:>12} {command}; REFUSED: {status}"),
    }
}

/// Power is lost.
pub(crate) fn cut(at_ns: u64, in_flight: &[InFlight]) {
    eprintln!("{at_ns:>12} POWER LOST; under way: {in_flight:?}");
}

/// Power came back.
pub(crate) fn power_on(recovered: &Result<RecoveryReport, DeviceError>) {
    match recovered {
        Ok(report) => eprintln!("             POWER ON: {report:?}"),
        Err(error) => eprintln!("             NO POWER: {error}"),
    }
}
