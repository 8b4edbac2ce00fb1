//! What recovery did, as `info` and `check` show it.

use serde::Serialize;
use tantalum::RecoveryReport;
use tantalum_report::table::{count, grouped};

/// What recovery did when the image was opened.
#[derive(Serialize)]
pub struct RecoveryInfo {
    pages_scanned: u64,
    /// Loaded from non-volatile memory.
    nvm_bytes_read: u64,
    torn_pages: u64,
    journal_records: u64,
    assertions: u64,
    transactions_completed: u64,
    transaction_units_dropped: u64,
    units_restored: u64,
    batches_completed: u64,
    batches_dropped: u64,
    log_pages_completed: u64,
    log_pages_dropped: u64,
    device_seconds: f64,
    /// The time on this machine; known only if the image was opened just for this.
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_seconds: Option<f64>,
}

/// How the drive was last shut down.
pub fn last_shutdown(recovery: &RecoveryReport) -> &'static str {
    if recovery.clean { "clean" } else { "power was lost" }
}

impl RecoveryInfo {
    /// The recovery in a report.
    pub fn of(report: &RecoveryReport) -> RecoveryInfo {
        RecoveryInfo {
            pages_scanned: report.pages_scanned,
            nvm_bytes_read: report.nvm_bytes_read,
            torn_pages: report.torn_pages,
            journal_records: report.journal_records,
            assertions: report.assertions,
            transactions_completed: report.transactions_completed,
            transaction_units_dropped: report.transaction_units_dropped,
            units_restored: report.units_restored,
            batches_completed: report.batches_whole,
            batches_dropped: report.batches_dropped,
            log_pages_completed: report.hints_whole,
            log_pages_dropped: report.hints_dropped,
            device_seconds: report.device_ns as f64 / 1e9,
            wall_seconds: None,
        }
    }

    /// Adds the time that recovery took on this machine.
    pub fn taking(self, wall_seconds: f64) -> RecoveryInfo {
        RecoveryInfo { wall_seconds: Some(wall_seconds), ..self }
    }

    /// Lines of text: name and value.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let took = format!(
            "{:.3} s of the drive's time, {:.3} s on this machine",
            self.device_seconds,
            self.wall_seconds.unwrap_or(0.0)
        );
        vec![
            ("recovery", self.read()),
            ("completed", self.completed()),
            ("dropped", self.dropped()),
            ("recovery took", took),
        ]
    }

    fn read(&self) -> String {
        format!(
            "spare areas of {} read, {} torn; {}, {} folded",
            count(self.pages_scanned, "page"),
            grouped(self.torn_pages),
            count(self.journal_records, "journal record"),
            count(self.assertions, "assertion")
        )
    }

    fn completed(&self) -> String {
        format!(
            "{} from protected DRAM, {}, {}, {} of hinted logs",
            count(self.units_restored, "unit"),
            count(self.transactions_completed, "transaction"),
            count(self.batches_completed, "atomic batch"),
            count(self.log_pages_completed, "page")
        )
    }

    fn dropped(&self) -> String {
        format!(
            "{} of open transactions, {}, {} of hinted logs",
            count(self.transaction_units_dropped, "unit"),
            count(self.batches_dropped, "atomic batch"),
            count(self.log_pages_dropped, "page")
        )
    }
}
