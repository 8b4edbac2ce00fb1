//! What clients of MariaDB wait for inside the server, from InnoDB's own counters.

use mysql::prelude::Queryable;
use tantalum::Nanoseconds;
use tantalum_report::{Figures, Row};

use crate::error::ExperimentError;
use crate::servers::{MariaDb, ServerError};

/// InnoDB's counters, or what they have grown by.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Innodb {
    /// Pages requested from the buffer, and those of them that had to be read.
    pub page_requests: u64,
    pub page_reads: u64,
    /// The number of times that a page had to be read and no page of the buffer was free, so the read waits until one
    /// is written.
    free_waits: u64,
    /// Pages written.
    pages_written: u64,
    /// Total time that statements waited for row locks.
    row_locks_ms: u64,
}

impl Innodb {
    /// The counters of a server.
    pub(super) fn of(server: &MariaDb) -> Result<Innodb, ExperimentError> {
        let mut connection = server.connect(None)?;
        let mut status = |name: &'static str| -> Result<u64, ServerError> {
            let query = format!("SHOW GLOBAL STATUS LIKE '{name}'");
            let row: Option<(String, u64)> = connection.query_first(query)?;
            row.map(|(_, value)| value).ok_or(ServerError::Counters { field: name })
        };
        Ok(Innodb {
            page_requests: status("Innodb_buffer_pool_read_requests")?,
            page_reads: status("Innodb_buffer_pool_reads")?,
            free_waits: status("Innodb_buffer_pool_wait_free")?,
            pages_written: status("Innodb_buffer_pool_pages_flushed")?,
            row_locks_ms: status("Innodb_row_lock_time")?,
        })
    }

    /// What was added after an earlier reading.
    pub(super) fn since(&self, before: &Innodb) -> Innodb {
        Innodb {
            page_requests: self.page_requests - before.page_requests,
            page_reads: self.page_reads - before.page_reads,
            free_waits: self.free_waits - before.free_waits,
            pages_written: self.pages_written - before.pages_written,
            row_locks_ms: self.row_locks_ms - before.row_locks_ms,
        }
    }
}

/// A case: its name, counters, operations, and the time that passed for the server.
pub(super) type InnodbCase = (String, Innodb, u64, Nanoseconds);

/// A table with a row for each case.
pub(super) fn figures(cases: &[InnodbCase]) -> Figures {
    let row = |(name, innodb, operations, elapsed_ns): &InnodbCase| {
        let each = |count: u64| count as f64 / (*operations).max(1) as f64;
        let waiting = innodb.row_locks_ms as f64 * 1e6 / (*elapsed_ns).max(1) as f64;
        Row {
            name: name.clone(),
            ours: vec![each(innodb.page_reads), each(innodb.pages_written), each(innodb.free_waits), waiting],
            paper: None,
        }
    };
    Figures {
        title: "what binds: inside the server, for each operation; and clients that wait for a lock of a row, on average"
            .to_owned(),
        unit: "pages, waits; clients",
        columns: ["pages read", "written", "waits for a free page", "wait for a row"]
            .map(str::to_owned)
            .into(),
        rows: cases.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_for_each_operation_and_time_is_a_number_of_clients() {
        let innodb = Innodb {
            page_requests: 1000,
            page_reads: 200,
            free_waits: 50,
            pages_written: 100,
            row_locks_ms: 6000,
        };
        let table = figures(&[("case".to_owned(), innodb, 100, 2_000_000_000)]);
        assert_eq!(table.row("case"), [2.0, 1.0, 0.5, 3.0]);
        let nothing = innodb.since(&innodb);
        assert_eq!((nothing.page_requests, nothing.row_locks_ms), (0, 0));
    }
}
