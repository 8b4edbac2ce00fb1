//! What the clients did, and what was in flight when power was cut: to show that the torture reached what it is meant
//! for.

use std::collections::BTreeMap;

use serde::Serialize;

/// Counts over all runs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Coverage {
    /// Commands by kind, as they were submitted.
    pub commands: BTreeMap<&'static str, u64>,
    /// Commands by the way that their client has into the drive.
    pub ways: BTreeMap<&'static str, u64>,
    /// Cuts by where they fell: in a command, while everybody waited, in a clean shutdown, and in recovery.
    pub cuts: BTreeMap<&'static str, u64>,
    /// Cuts after which an image was opened again, instead of a drive in memory.
    pub reopened: u64,
    /// Commands in flight at all cuts.
    pub in_flight_at_cuts: u64,
    /// The most at one of them.
    pub most_in_flight: u64,
    /// Cuts with commands of more than one client in flight.
    pub cuts_with_several_clients: u64,
    /// Cuts with commands of several clients in flight that change the same unit or record.
    pub cuts_in_conflicts: u64,
    /// Commands that change or read a unit or record which a command of another client in flight changes.
    pub conflicts: u64,
    /// Answers that were due after a cut and reported it.
    pub answers_lost: u64,
    /// Units that were shared because they repeat a recent write.
    pub remapped: u64,
    /// Commands refused because the drive is worn out, or has no room for a while as it wears.
    pub refused_by_worn_drives: u64,
    /// Commands refused because the drive is full.
    pub refused_by_full_drives: u64,
    /// Transactions that the program Atomic-Writes committed.
    pub program_commits: u64,
    /// Transactions that it aborted, because a processor waited for the drive for too long.
    pub program_aborts: u64,
}

impl Coverage {
    /// A command was submitted.
    pub(super) fn command(&mut self, name: &'static str, way: &'static str) {
        *self.commands.entry(name).or_default() += 1;
        *self.ways.entry(way).or_default() += 1;
    }

    /// Power was cut.
    pub(super) fn cut(&mut self, place: &'static str) {
        *self.cuts.entry(place).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Coverage) {
        for (mine, others) in [
            (&mut self.commands, &other.commands),
            (&mut self.ways, &other.ways),
            (&mut self.cuts, &other.cuts),
        ] {
            others.iter().for_each(|(name, count)| *mine.entry(name).or_default() += count);
        }
        self.reopened += other.reopened;
        self.in_flight_at_cuts += other.in_flight_at_cuts;
        self.most_in_flight = self.most_in_flight.max(other.most_in_flight);
        self.cuts_with_several_clients += other.cuts_with_several_clients;
        self.cuts_in_conflicts += other.cuts_in_conflicts;
        self.conflicts += other.conflicts;
        self.answers_lost += other.answers_lost;
        self.remapped += other.remapped;
        self.refused_by_worn_drives += other.refused_by_worn_drives;
        self.refused_by_full_drives += other.refused_by_full_drives;
        self.program_commits += other.program_commits;
        self.program_aborts += other.program_aborts;
    }
}
