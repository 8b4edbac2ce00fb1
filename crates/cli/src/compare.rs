//! `tantalum compare sqlite`.

use tantalum::Profile;
use tantalum_papers::ExperimentError;
use tantalum_papers::compare::{
    KeyValue, Settings, Statements, Workload, compare, of_comparison, write_report,
};
use tantalum_report::{InvalidSetting, check_place};
use tantalum_sqlite::Mode;

use crate::arguments::{COMPARE_CAPACITY, CompareOptions};
use crate::drive::{note_rounding, note_small_fill};
use crate::failure::Failure;
use crate::{interrupt, output};

/// Compares, prints the results and writes the report. Then a wrong database is a failure.
pub fn run(options: &CompareOptions) -> Result<(), Failure> {
    let settings = Settings {
        profile: options.drive.load(Some(COMPARE_CAPACITY), None)?,
        modes: modes(&options.modes)?,
        synchronous: options.synchronous,
        seed: options.seed,
    };
    if let Some(path) = &options.report {
        check_place(path)?;
    }
    let workload = workload(options, &settings.profile)?;
    let _offer = options.offer.offer()?;
    note_rounding(&settings.profile);
    note_small_fill(&settings.profile, "");
    let comparison = compare(&settings, workload.as_ref(), &interrupt::monitor())?;
    if let Some(path) = &options.report {
        write_report(&comparison, path)?;
    }
    if options.json {
        output::print_json(&comparison)?;
    } else {
        output::print(&of_comparison(&comparison))?;
    }
    if comparison.is_intact() { Ok(()) } else { Err(Failure::Mismatch) }
}

fn workload(options: &CompareOptions, profile: &Profile) -> Result<Box<dyn Workload>, ExperimentError> {
    if let (Some(database), Some(sql)) = (&options.database, &options.sql) {
        return Ok(Box::new(Statements::read(database, sql, profile, options.seed)?));
    }
    let workload = KeyValue {
        pattern: options.pattern,
        rows: options.rows,
        operations: options.operations,
        value_bytes: options.value_bytes,
    };
    workload.validate()?;
    Ok(Box::new(workload))
}

/// The selected modes, or all.
fn modes(asked: &[Mode]) -> Result<Vec<Mode>, InvalidSetting> {
    if asked.is_empty() {
        return Ok(Mode::ALL.to_vec());
    }
    for (place, mode) in asked.iter().enumerate() {
        if asked[..place].contains(mode) {
            return Err(InvalidSetting::new("--modes", mode, "each mode can be named once"));
        }
    }
    Ok(asked.to_vec())
}
