//! Describes collection and recovery in words.

use tantalum::{RecoveryReport, UNIT_BYTES};
use tantalum_report::table::{bytes, grouped};

use crate::blocks::count;
use crate::point::Between;

/// What garbage collection did between two looks.
pub fn collection(between: Between<'_>) -> Vec<String> {
    let now = between.now;
    let free = format!("{} blocks are free", grouped(count(&now.blocks, b'f') as u64));
    if !now.has_power {
        return vec!["The drive has no power: nothing is collected.".to_owned()];
    }
    let counters = between.counted();
    let flash = &counters.flash_units;
    let (blocks, moved) = (counters.collections, flash.copyback + flash.key_value_copyback);
    let mut said = match (blocks + moved, counters.host_units_written) {
        (0, 0) => vec![format!("Idle: nothing is written, and {free}.")],
        (0, _) => vec![format!("Nothing to collect: {free}, and writes go there.")],
        _ => collecting(between, blocks, moved, &free),
    };
    if now.read_only {
        said.push("Too few good blocks are left: the drive takes no more writes.".to_owned());
    }
    said
}

fn collecting(between: Between<'_>, blocks: u64, moved: u64, free: &str) -> Vec<String> {
    let shape = &between.now.shape;
    let seconds = between.seconds();
    let each_second = |count: f64| if seconds > 0.0 { count / seconds } else { count };
    let rate = bytes(each_second((moved * UNIT_BYTES as u64) as f64) as u64);
    let mut said = match blocks {
        0 => vec![format!(
            "Collecting: moving {rate} each second out of blocks that are almost empty; {free}."
        )],
        _ => {
            let share = 100.0 * moved as f64 / (blocks * u64::from(shape.units_per_block)) as f64;
            let emptied = each_second(blocks as f64);
            vec![
                format!("Collecting: {emptied:.1} blocks are emptied each second; {free}."),
                format!(
                    "{:.0} % of them was still in use and is moved: {rate} each second.",
                    share.min(100.0)
                ),
            ]
        }
    };
    let planes = f64::from(shape.dies * shape.planes_per_die);
    let busy_ns =
        between.now.usage.plane_background_ns.saturating_sub(between.before.usage.plane_background_ns);
    let device_seconds = between.device_seconds();
    if device_seconds > 0.0 {
        let share = 100.0 * busy_ns as f64 / 1e9 / device_seconds / planes;
        said.push(format!("That and checkpoints take {:.0} % of the planes' time.", share.min(100.0)));
    }
    said
}

/// What a recovery found.
pub fn recovery(report: &RecoveryReport) -> Vec<String> {
    if report.clean {
        return vec!["The flash is as a proper shutdown leaves it: there was nothing to recover.".to_owned()];
    }
    let milliseconds = report.device_ns as f64 / 1e6;
    let mut said = vec![format!(
        "Power was lost. Recovery read the spare areas of {} pages and {} pages of checkpoint and journal, and took {milliseconds:.1} ms of the drive's time.",
        grouped(report.pages_scanned),
        grouped(report.pages_read)
    )];
    said.push(match report.torn_pages {
        0 => "No page was torn.".to_owned(),
        1 => "One page was torn: power failed during its program.".to_owned(),
        torn => format!("{} pages were torn: power failed during their programs.", grouped(torn)),
    });
    said.push(format!(
        "The map is the last checkpoint with {} newer assertions of spare areas and {} records of the journal.",
        grouped(report.assertions),
        grouped(report.journal_records)
    ));
    let completed = [
        (report.units_restored, "units from memory that a capacitor saved"),
        (report.transactions_completed, "transactions"),
        (report.batches_whole, "atomic batches"),
        (report.hints_whole, "pages of hinted logs"),
    ];
    let dropped = [
        (report.transaction_units_dropped, "units of open transactions"),
        (report.batches_dropped, "incomplete atomic batches"),
        (report.hints_dropped, "pages of hinted logs"),
    ];
    said.extend(listed("Completed", &completed));
    said.extend(listed("Dropped", &dropped));
    said
}

/// Only those that are not zero.
fn listed(verb: &str, counts: &[(u64, &str)]) -> Option<String> {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> = some.map(|(count, what)| format!("{} {what}", grouped(*count))).collect();
    (!some.is_empty()).then(|| format!("{verb}: {}.", some.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_told_with_what_it_found_and_no_more() {
        let report = RecoveryReport {
            pages_scanned: 1234,
            pages_read: 5,
            torn_pages: 1,
            assertions: 77,
            journal_records: 3,
            batches_whole: 2,
            device_ns: 12_340_000,
            ..RecoveryReport::default()
        };
        let said = recovery(&report);
        assert!(said[0].contains("1,234 pages and 5 pages") && said[0].contains("12.3 ms"), "{said:?}");
        assert_eq!(said[1], "One page was torn: power failed during its program.");
        assert_eq!(said[3..], ["Completed: 2 atomic batches."]);
        let clean = recovery(&RecoveryReport { clean: true, ..report });
        assert_eq!(clean, ["The flash is as a proper shutdown leaves it: there was nothing to recover."]);
    }
}
