//! What bound a server's clients, with a row for each case: its drives, its waits inside, and this machine's processors.

use tantalum::Profile;
use tantalum_report::Figures;

use super::binds::{self, Phase};
use super::innodb::{self, InnodbCase};
use super::linkbench_rig::CaseResult;

/// The cases so far.
#[derive(Default)]
pub(super) struct ServerBinds {
    phases: Vec<(String, Phase)>,
    inside: Vec<InnodbCase>,
    busy: Vec<(String, Vec<f64>)>,
}

impl ServerBinds {
    /// Adds a case.
    pub(super) fn add(&mut self, case: &str, result: &CaseResult) {
        self.phases.extend(result.drives.named(case));
        self.inside.push(result.inside(case));
        self.busy.push((case.to_owned(), vec![result.measured.busy_percent]));
    }

    /// The tables, for drives of this profile.
    pub(super) fn figures(self, profile: &Profile) -> Vec<Figures> {
        let mut figures = binds::figures(profile, &self.phases);
        figures.push(innodb::figures(&self.inside));
        figures.push(Figures::of_processors(&["busy".to_owned()], self.busy));
        figures
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Counters, Usage};
    use tantalum_workloads::clients::Measured;

    use super::super::innodb::Innodb;
    use super::super::mounted_mariadb::Drives;
    use super::*;

    #[test]
    fn each_case_has_a_row_in_every_table_and_a_log_s_drive_one_of_its_own() {
        let phase = Phase { usage: Usage::default(), elapsed_ns: 1_000_000_000 };
        let innodb = Innodb::default();
        let measured = Measured { seconds: 1.0, latencies: Vec::new(), busy_percent: 12.5 };
        let mut binds = ServerBinds::default();
        for (case, log) in [("first", None), ("second", Some(phase))] {
            let drives = Drives { data: phase, log };
            let result =
                CaseResult { measured: measured.clone(), counters: Counters::default(), innodb, drives };
            binds.add(case, &result);
        }
        let tables = binds.figures(&Profile::load("durassd").unwrap());
        let names = |table: &Figures| table.rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&tables[0]), ["first", "second", "second, log"]);
        for table in &tables[2..] {
            assert_eq!(names(table), ["first", "second"], "{}", table.title);
        }
        assert_eq!(tables.last().unwrap().row("second"), [12.5]);
    }
}
