//! Reports: a comparison, experiments or any tables as one HTML page that stands alone, plots as one SVG.

mod bars;
mod colours;
mod curve;
mod experiments;
mod grouped;
mod page;
mod recovery_cost;

use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::error::LabError;
use crate::experiments::{Figures, Outcome as Experiment};
use crate::outcome::Comparison;
use crate::recovery_cost::Outcome as RecoveryCost;

/// Checks that a report could be written there, before anything is measured for it.
pub fn check_place(path: &Path) -> Result<(), LabError> {
    beside(path).map(drop)
}

/// Writes the report of a comparison.
pub fn write(comparison: &Comparison, path: &Path) -> Result<(), LabError> {
    save(&page::render(comparison)?, path)
}

/// Writes the report of experiments.
pub fn write_experiments(outcomes: &[Experiment], path: &Path) -> Result<(), LabError> {
    save(&experiments::render(outcomes)?, path)
}

/// Writes the plots of recovery cost.
pub fn write_recovery_cost(outcome: &RecoveryCost, path: &Path) -> Result<(), LabError> {
    save(&recovery_cost::draw(outcome)?, path)
}

/// Writes a report of tables, each with its plot.
pub fn write_figures(title: &str, lead: &[String], figures: &[Figures], path: &Path) -> Result<(), LabError> {
    save(&experiments::render_figures(title, lead, figures)?, path)
}

/// Writes the plots of tables that have the same rows, `across` beside each other.
pub fn write_plots(figures: &[Figures], across: usize, path: &Path) -> Result<(), LabError> {
    save(&grouped::draw_all(figures, across)?, path)
}

/// Writes a file that is there whole or not at all: beside its place, and then renamed.
pub fn save(text: &str, path: &Path) -> Result<(), LabError> {
    let mut file = beside(path)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(LabError::file(path))?;
    file.persist(path).map_err(|error| LabError::file(path)(error.error))?;
    Ok(())
}

/// A new file in the folder of `path`, gone when it is dropped.
fn beside(path: &Path) -> Result<NamedTempFile, LabError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    readable_by_all(&mut builder);
    builder.prefix(".tantalum-report-").tempfile_in(folder).map_err(LabError::file(path))
}

/// A report is for others as well; temporary files are not, unless told.
#[cfg(unix)]
fn readable_by_all(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o644));
}

#[cfg(not(unix))]
fn readable_by_all(_builder: &mut tempfile::Builder<'_, '_>) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::tests::comparison;
    use std::fs;
    use tempfile::TempDir;

    #[test]
    fn a_report_stands_alone() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("report.html");
        write(&comparison(), &path).unwrap();
        let page = fs::read_to_string(&path).unwrap();
        assert_eq!(page.matches("<svg").count(), 5);
        for outside in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "the page refers to something outside: {outside}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left beside it");
    }

    #[test]
    fn an_impossible_place_is_found_before_measuring() {
        let error = check_place(Path::new("no/such/folder/report.html")).unwrap_err().to_string();
        assert!(error.starts_with("no/such/folder/report.html: "), "{error}");
    }

    #[test]
    fn checking_the_place_leaves_nothing() {
        let dir = TempDir::new().unwrap();
        check_place(&dir.path().join("report.html")).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
