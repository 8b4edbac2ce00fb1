//! A finding: a failed check with its explanation.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A failed check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// How many operations of the program had returned when power was cut.
    pub after_operations: usize,
    /// The last of them.
    pub last_operation: String,
    /// How the check ended.
    pub check_ended: String,
    /// The end of what it printed.
    pub check_said: String,
    /// What had to be lost for the check to fail. Empty if nothing had to, and if a drive left something that is no set of whole
    /// operations.
    pub lost: Vec<String>,
    /// Operations that survived although they came after the first that was lost.
    pub there: Vec<String>,
    /// The syncs of what was lost that would each make the check pass, for all outcomes of this finding. Another finding has
    /// none of these, whatever the numbers in the names of files. If a drive decided what was lost, only together some may
    /// help: then a line has several.
    pub saved_by: Vec<String>,
    /// Operations that can be lost before any sync could follow, although the check fails then: whoever reads the files must
    /// tolerate that.
    #[serde(default)]
    pub unavoidable: Vec<String>,
    /// Why the check fails although nothing that was written is lost, if so.
    #[serde(default)]
    pub without_loss: Option<WithoutLoss>,
    /// How many more outcomes lost what makes the check fail here. One that lost more may count with several findings.
    pub also: u64,
    /// The folder in which it is saved.
    #[serde(with = "tantalum_control::path", default)]
    pub saved: Option<PathBuf>,
}

/// Why a check fails although nothing that was written is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithoutLoss {
    /// It passes without the acknowledgements: something was acknowledged before it was written.
    Acknowledged,
    /// It fails between two operations, so also if only the program is killed there.
    Between,
}
