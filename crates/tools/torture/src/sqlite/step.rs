//! The workload's next step, as plain data that follows from a seed.

use rand::{RngExt, SeedableRng};
use tantalum_sqlite::Mode;

use super::contents::{Change, Random};

/// Connections that read at the same time.
pub(super) const READERS: usize = 2;

/// Connections that write, in turn.
pub(super) const WRITERS: usize = 2;

/// One transaction.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub writer: usize,
    pub changes: Vec<Change>,
    /// A seed for work that is rolled back to a savepoint within it.
    pub discarded: Option<u64>,
    /// Readers check their snapshots before it commits.
    pub watched: bool,
}

/// One step of the workload.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A transaction that commits.
    Transaction(Transaction),
    /// A transaction that spills and is rolled back.
    RollBack { writer: usize, seed: u64 },
    /// A checkpoint: PASSIVE, FULL, RESTART, TRUNCATE.
    Checkpoint { writer: usize, kind: &'static str },
    /// VACUUM, REINDEX, an incremental vacuum.
    Maintain { writer: usize, sql: &'static str },
    /// A reader opens its snapshot, or checks and closes it if it has one.
    Read { reader: usize },
    /// Readers check their snapshots.
    Watch,
    /// The log is removed, transactions use a rollback journal, and the log comes back.
    SwitchJournal(Vec<Transaction>),
    /// Units of other data are overwritten, and not synced.
    WriteOtherData { seed: u64 },
}

impl Transaction {
    fn draw(random: &mut Random) -> Transaction {
        let changes = (0..random.random_range(1..5)).map(|_| Change::draw(random)).collect();
        Transaction {
            writer: random.random_range(0..WRITERS),
            changes,
            discarded: random.random_bool(0.2).then(|| random.random()),
            watched: random.random_bool(0.1),
        }
    }
}

impl Step {
    /// Draws a step that the mode can do.
    fn draw(random: &mut Random, mode: Mode) -> Step {
        let has_log = mode.journal_mode() == "wal";
        let writer = random.random_range(0..WRITERS);
        let kinds = ["PASSIVE", "PASSIVE", "FULL", "RESTART", "TRUNCATE"];
        let chores = ["VACUUM", "REINDEX small_by_tag", "PRAGMA incremental_vacuum(4)"];
        match random.random_range(0..100) {
            0..12 if has_log => Step::Checkpoint { writer, kind: kinds[random.random_range(0..kinds.len())] },
            12..16 => Step::Maintain { writer, sql: chores[random.random_range(0..chores.len())] },
            16..22 => Step::RollBack { writer, seed: random.random() },
            22..29 => Step::Read { reader: random.random_range(0..READERS) },
            29..33 => Step::Watch,
            33..40 => Step::WriteOtherData { seed: random.random() },
            40..42 if mode == Mode::Wal => {
                Step::SwitchJournal((0..2).map(|_| Transaction::draw(random)).collect())
            }
            _ => Step::Transaction(Transaction::draw(random)),
        }
    }
}

/// The steps of one life of the database, from power on to the cut.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    random: Random,
    mode: Mode,
}

impl Steps {
    /// The steps that a seed draws.
    pub fn new(seed: u64, mode: Mode) -> Steps {
        Steps { random: Random::seed_from_u64(seed), mode }
    }

    /// The next step; there is no last one.
    pub fn next(&mut self) -> Step {
        Step::draw(&mut self.random, self.mode)
    }
}
