//! The list of a comparison's settings, as on its page.

use tantalum::{Effective, Profile};
use tantalum_report::html::escaped;
use tantalum_report::table::{bytes, grouped};

use super::outcome::{Comparison, WorkloadOutcome};
use super::summary;

type Entry = (&'static str, String);

/// The drive, the work and the host, one line each.
pub(super) fn configuration(comparison: &Comparison) -> String {
    let others = [
        ("Transactions", comparison.runs.first().map_or(String::new(), |run| grouped(run.transactions))),
        ("Seed", comparison.seed.to_string()),
        ("Made by", format!("tantalum {}", env!("CARGO_PKG_VERSION"))),
    ];
    let entries = drive(&comparison.profile).into_iter().chain(work(&comparison.workload)).chain(others);
    let items: String =
        entries.map(|(name, text)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&text))).collect();
    format!("<dl>\n{items}</dl>")
}

fn drive(profile: &Profile) -> [Entry; 5] {
    let flash = &profile.flash;
    let (capacity, effective) = (bytes(profile.capacity_bytes), Effective::of(profile));
    let shape =
        format!("{}, rated for {} cycles", effective.shape(), grouped(flash.endurance_cycles.into()),);
    let times = format!(
        "read {} us, program {} us, erase {} us",
        flash.read_ns / 1000,
        flash.program_ns / 1000,
        flash.erase_ns / 1000
    );
    [
        ("Drive", format!("{}: {}", profile.name, profile.description)),
        ("Capacity", format!("{capacity}, {effective}")),
        ("Flash", shape),
        ("Flash times", times),
        ("Write cache", format!("{}, {}", serde_name(&profile.cache.mode), bytes(profile.cache.bytes))),
    ]
}

fn work(workload: &WorkloadOutcome) -> [Entry; 3] {
    let ageing = format!(
        "{} of other data, {} units overwritten at random, write amplification {} at the end",
        bytes(workload.other_data_bytes),
        grouped(workload.aged_units),
        workload.aged_write_amplification
    );
    let host = format!(
        "SQLite cache {} KiB, page cache {}, checkpoint every {} pages, {} us for each statement",
        workload.sqlite_cache_kib,
        bytes(workload.page_cache_bytes),
        workload.wal_autocheckpoint_pages,
        workload.host_ns_per_statement / 1000
    );
    [("Workload", summary::workload_line(workload)), ("Ageing", ageing), ("Host", host)]
}

/// The name of a choice in a profile.
fn serde_name(choice: &impl serde::Serialize) -> String {
    let name = serde_json::to_value(choice).expect("a choice is a string");
    name.as_str().expect("a choice is a string").to_owned()
}
