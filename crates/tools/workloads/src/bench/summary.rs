//! A benchmark as text for a terminal.

use tantalum_report::table::{bytes, grouped};

use super::Outcome;
use crate::handle_costs::HandleCost;

/// A benchmark, one figure a line.
pub fn of_bench(outcome: &Outcome) -> String {
    let latency = &outcome.latency_us;
    let pattern = match outcome.announced_reads {
        true => outcome.pattern.name().to_owned(),
        false => format!("{}, reads not announced", outcome.pattern.name()),
    };
    let mut rows = vec![
        ("drive", format!("{}, {}, {}", outcome.profile, bytes(outcome.capacity_bytes), outcome.effective)),
        ("flash", outcome.effective.shape()),
        ("pattern", pattern),
        ("operations (4 KiB each)", grouped(outcome.operations)),
        ("wall seconds", format!("{:.3}", outcome.wall_seconds)),
        ("processor us/operation", format!("{:.3}", outcome.processor_us)),
        ("processor us/copy", format!("{:.3}", outcome.memcpy_processor_us)),
        ("operations per second", grouped(outcome.operations_per_second as u64)),
        ("memcpy units per second", grouped(outcome.memcpy_units_per_second as u64)),
        ("of memcpy", format!("{:.2}", outcome.memcpy_ratio)),
        ("write amplification", format!("{:.2}", outcome.write_amplification)),
        ("DRAM bytes per unit", format!("{:.2}", outcome.dram_bytes_per_unit)),
        ("virtual seconds", format!("{:.3}", outcome.virtual_seconds)),
        (
            "virtual latency us",
            format!(
                "mean {:.1}, p50 {:.1}, p95 {:.1}, p99 {:.1}, max {:.1}",
                latency.mean, latency.p50, latency.p95, latency.p99, latency.max
            ),
        ),
    ];
    if !outcome.steady {
        rows.push(("note", "garbage collection was not yet steady when the measurement began".to_owned()));
    }
    let text: String = rows.iter().map(|(name, figure)| format!("{name:<24}{figure}\n")).collect();
    let of_handle = |cost: &HandleCost| {
        let name = format!("handle {}", cost.handle);
        let ratio = cost.write_amplification.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let written = grouped(cost.host_units_written);
        format!("{name:<24}{written} units written, write amplification {ratio}\n")
    };
    text + &outcome.handles.iter().map(of_handle).collect::<String>()
}
