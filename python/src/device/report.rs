//! What a drive has done, as dicts.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tantalum_device::{Kind, Latencies, Limits, RecoveryReport, Smart, Usage};

/// A structure as its JSON says it.
fn of_json<'py>(py: Python<'py>, what: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(what).expect("it has string keys only");
    py.import("json")?.call_method1("loads", (text,))
}

pub(super) fn counters<'py>(py: Python<'py>, smart: &Smart) -> PyResult<Bound<'py, PyAny>> {
    let counters = of_json(py, smart)?;
    counters.set_item("write_amplification", smart.write_amplification())?;
    Ok(counters)
}

pub(super) fn usage<'py>(py: Python<'py>, usage: &Usage) -> PyResult<Bound<'py, PyAny>> {
    of_json(py, usage)
}

pub(super) fn limits<'py>(py: Python<'py>, limits: &Limits) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("capacity_units", limits.capacity_units)?;
    dict.set_item("atomic_units", limits.atomic_units)?;
    dict.set_item("share_units", limits.share_units)?;
    dict.set_item("open_transactions", limits.open_transactions)?;
    dict.set_item("transaction_units", limits.transaction_units)?;
    Ok(dict)
}

pub(super) fn latencies<'py>(py: Python<'py>, latencies: &Latencies) -> PyResult<Bound<'py, PyDict>> {
    let kinds = [("read", Kind::Read), ("write", Kind::Write), ("flush", Kind::Flush), ("map", Kind::Map)];
    let dict = PyDict::new(py);
    for (name, kind) in kinds {
        let histogram = latencies.of(kind);
        let figures = PyDict::new(py);
        figures.set_item("count", histogram.len())?;
        figures.set_item("mean_ns", histogram.mean())?;
        for (name, quantile) in [("p50_ns", 0.5), ("p95_ns", 0.95), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
            figures.set_item(name, histogram.value_at_quantile(quantile))?;
        }
        figures.set_item("max_ns", histogram.max())?;
        dict.set_item(name, figures)?;
    }
    Ok(dict)
}

pub(super) fn recovery<'py>(py: Python<'py>, report: &RecoveryReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("clean", report.clean)?;
    let counts = [
        ("pages_scanned", report.pages_scanned),
        ("pages_read", report.pages_read),
        ("torn_pages", report.torn_pages),
        ("journal_records", report.journal_records),
        ("assertions", report.assertions),
        ("batches_whole", report.batches_whole),
        ("batches_dropped", report.batches_dropped),
        ("transactions_completed", report.transactions_completed),
        ("transaction_units_dropped", report.transaction_units_dropped),
        ("units_restored", report.units_restored),
        ("read_ns", report.read_ns),
        ("device_ns", report.device_ns),
    ];
    for (name, count) in counts {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}
