//! What a drive reports: time, counters, latencies, limits.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use tantalum_device::{Geometry, Kind, UNIT_BYTES};

use super::{LAST_NS, PyDevice};
use crate::TantalumError;

/// Kinds of commands, by the names of their latencies.
const KINDS: [(&str, Kind); 6] = [
    ("read", Kind::Read),
    ("write", Kind::Write),
    ("flush", Kind::Flush),
    ("map", Kind::Map),
    ("put", Kind::Put),
    ("get", Kind::Get),
];

/// Percentiles, by name.
const PERCENTILES: [(&str, f64); 4] =
    [("p50_ns", 50.0), ("p90_ns", 90.0), ("p99_ns", 99.0), ("p999_ns", 99.9)];

/// Plain data as Python has them: dicts, lists, numbers.
pub fn object(py: Python<'_>, data: &impl Serialize) -> PyResult<Py<PyAny>> {
    let text = serde_json::to_string(data).map_err(|error| TantalumError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,)).map(Bound::unbind)
}

#[pymethods]
impl PyDevice {
    /// The time at which the next command is issued, in ns of the drive's time.
    #[getter]
    fn now_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| Ok(state.now_ns.max(state.device.issued_ns())))
    }

    /// The time at which everything that was submitted is done, in ns.
    #[getter]
    fn idle_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| Ok(state.device.time_ns()))
    }

    /// Waits until everything that was queued is done; returns that time.
    fn wait(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| {
            state.now_ns = state.now_ns.max(state.device.time_ns());
            Ok(state.now_ns)
        })
    }

    /// Advances time by what the host spends elsewhere, in ns; returns the new time.
    fn advance(&self, py: Python<'_>, ns: u64) -> PyResult<u64> {
        self.with(py, |state| match state.now_ns.checked_add(ns).filter(|now_ns| *now_ns <= LAST_NS) {
            Some(now_ns) => {
                state.now_ns = now_ns;
                Ok(now_ns)
            }
            None => Err(PyValueError::new_err("the drive's time must be at most 2**61 ns")),
        })
    }

    /// The capacity in bytes.
    #[getter]
    fn capacity_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| Ok(state.device.limits().capacity_units * UNIT_BYTES as u64))
    }

    /// The capacity in units of 4,096 bytes.
    #[getter]
    fn capacity_units(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| Ok(state.device.limits().capacity_units))
    }

    /// How many units are mapped, not counting those written for the first time that are still in the cache.
    #[getter]
    fn mapped_units(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| Ok(state.device.mapped_units()))
    }

    /// The profile that the drive was created from, as TOML.
    #[getter]
    fn profile(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |state| Ok(state.device.profile().to_toml()))
    }

    /// The drive's limits for one step (units, bytes, records), and for what may be open at once; and the flash that it
    /// has: "effective_over_provisioning_percent" of its capacity, in whole blocks of "pages_per_block" pages.
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let limits = self.with(py, |state| Ok(state.device.limits()))?;
        let (dict, key_value) = (PyDict::new(py), limits.key_value);
        let all = [
            ("capacity_units", limits.capacity_units),
            ("atomic_units", limits.atomic_units.into()),
            ("atomic_write_units", limits.atomic_write_units.into()),
            ("share_units", limits.share_units.into()),
            ("open_transactions", limits.open_transactions.into()),
            ("transaction_units", limits.transaction_units.into()),
            ("hints", limits.hints.into()),
            ("files", limits.files.into()),
            ("key_bytes", key_value.key_bytes.into()),
            ("value_bytes", key_value.value_bytes),
            ("put_records", key_value.put_records.into()),
            ("put_bytes", key_value.put_bytes),
            ("namespaces", key_value.namespaces.into()),
        ];
        all.into_iter().try_for_each(|(name, limit)| dict.set_item(name, limit))?;
        let Geometry { channels, dies_per_channel, planes_per_die, blocks_per_plane, pages_per_block, page_bytes } =
            limits.flash.geometry;
        let geometry = [
            ("channels", channels),
            ("dies_per_channel", dies_per_channel),
            ("planes_per_die", planes_per_die),
            ("blocks_per_plane", blocks_per_plane),
            ("pages_per_block", pages_per_block),
            ("page_bytes", page_bytes),
        ];
        geometry.into_iter().try_for_each(|(name, number)| dict.set_item(name, number))?;
        dict.set_item("effective_over_provisioning_percent", limits.flash.over_provisioning_percent)?;
        Ok(dict)
    }

    /// Counters since the drive was created, and its wear, as `tantalum stat --json` has them. Units are of 4,096 bytes;
    /// "flash_units" has the units programmed by cause. Zeros without power.
    ///
    /// since_reset: what was counted since `reset_counters`; the wear is as it is now.
    #[pyo3(signature = (*, since_reset = false))]
    fn counters(&self, py: Python<'_>, since_reset: bool) -> PyResult<Py<PyAny>> {
        let smart = self.with(py, |state| {
            let mut smart = state.device.smart();
            if since_reset {
                smart.counters = smart.counters.since(&state.counted);
            }
            Ok(smart)
        })?;
        object(py, &smart)
    }

    /// Begins an interval, for `counters(since_reset=True)`. The counters since the drive was created stay.
    fn reset_counters(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.counted = state.device.smart().counters;
            Ok(())
        })
    }

    /// Units programmed for each unit that hosts wrote, since the drive was created; 0 if none was.
    fn write_amplification(&self, py: Python<'_>) -> PyResult<f64> {
        self.with(py, |state| Ok(state.device.smart().write_amplification()))
    }

    /// Sums since power came, in ns: how long planes, channels, firmware and link were busy, and how long commands took
    /// and waited. Zeros without power.
    fn usage(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let usage = self.with(py, |state| Ok(state.device.usage()))?;
        object(py, &usage)
    }

    /// What the last recovery did: pages read, records found, and times in ns.
    fn recovery(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let report = self.with(py, |state| Ok(*state.device.recovery()))?;
        object(py, &report)
    }

    /// Latencies of commands since the drive was created or opened, in ns of the drive's time and accurate to 1 %, by kind:
    /// "read", "write", "flush", "map" (share, remap, trim, atomic writes, commits), "put" and "get" (of records). Each has
    /// "count", "mean_ns", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns" and "max_ns"; kinds without a command are left
    /// out.
    fn latencies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let latencies = self.with(py, |state| Ok(state.device.latencies().clone()))?;
        let all = PyDict::new(py);
        for (name, kind) in KINDS {
            let histogram = latencies.of(kind);
            if histogram.is_empty() {
                continue;
            }
            let one = PyDict::new(py);
            one.set_item("count", histogram.len())?;
            one.set_item("mean_ns", histogram.mean())?;
            one.set_item("min_ns", histogram.min())?;
            for (name, percentile) in PERCENTILES {
                one.set_item(name, histogram.value_at_percentile(percentile))?;
            }
            one.set_item("max_ns", histogram.max())?;
            all.set_item(name, one)?;
        }
        Ok(all)
    }
}
