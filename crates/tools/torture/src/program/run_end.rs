//! What a run finds, and why it ends.

use tantalum_report::Interrupted;

use crate::error::CrashError;

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken {
    /// The promise's name.
    pub promise: &'static str,
    /// What was found, and what would have been allowed.
    pub detail: String,
    /// Whether it was an error that broke it, and not a wrong answer: where the host fails, an error says what is true.
    pub is_error: bool,
}

impl Broken {
    pub fn new(promise: &'static str, detail: impl Into<String>) -> Broken {
        Broken { promise, detail: detail.into(), is_error: false }
    }

    /// An error where there should be none.
    pub fn error(promise: &'static str, detail: impl Into<String>) -> Broken {
        Broken { is_error: true, ..Broken::new(promise, detail) }
    }
}

/// Why a step of a program was not completed.
pub(crate) enum Stop {
    /// Power was lost.
    PowerLost,
    /// A promise was broken.
    Broken(Broken),
}

/// What a run found: the cut and the promise.
pub(crate) struct Found {
    pub cut: u64,
    pub broken: Broken,
}

/// Why a run ended early.
pub(crate) enum RunEnd {
    Found(Found),
    Failed(CrashError),
}

impl RunEnd {
    /// A promise was broken at the beginning.
    pub fn at_first(broken: Broken) -> RunEnd {
        RunEnd::Found(Found { cut: 0, broken })
    }
}

impl From<Interrupted> for RunEnd {
    fn from(interrupted: Interrupted) -> RunEnd {
        CrashError::from(interrupted).into()
    }
}

impl From<CrashError> for RunEnd {
    fn from(error: CrashError) -> RunEnd {
        RunEnd::Failed(error)
    }
}
