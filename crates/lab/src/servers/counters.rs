//! What a drive has done, as an experiment needs it.

use serde_json::Value;

use super::ServerError;

/// Counters of a drive, or their growth between two moments. Units are 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Units the host wrote.
    pub host_units: u64,
    /// Units programmed for any reason.
    pub flash_units: u64,
    /// Units moved by garbage collection.
    pub copyback_units: u64,
    /// Blocks emptied by garbage collection.
    pub collections: u64,
    /// Units whose mapping was shared instead of written.
    pub shared_units: u64,
}

impl Counters {
    /// From what `tantalum stat --json` prints.
    pub(super) fn of(report: &Value) -> Result<Counters, ServerError> {
        let smart = &report["smart"];
        let number = |value: &Value, field| value.as_u64().ok_or(ServerError::Counters { field });
        let flash = smart["flash_units"].as_object().ok_or(ServerError::Counters { field: "flash_units" })?;
        Ok(Counters {
            host_units: number(&smart["host_units_written"], "host_units_written")?,
            flash_units: flash.values().filter_map(Value::as_u64).sum(),
            copyback_units: number(&smart["flash_units"]["copyback"], "copyback")?,
            collections: number(&smart["collections"], "collections")?,
            shared_units: number(&smart["units_shared"], "units_shared")?,
        })
    }

    /// How far they have grown since.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            host_units: self.host_units - before.host_units,
            flash_units: self.flash_units - before.flash_units,
            copyback_units: self.copyback_units - before.copyback_units,
            collections: self.collections - before.collections,
            shared_units: self.shared_units - before.shared_units,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tantalum::Smart;

    #[test]
    fn counters_are_read_from_what_stat_prints() {
        let mut smart = Smart { host_units_written: 7, collections: 3, units_shared: 2, ..Smart::default() };
        smart.flash_units.host = 5;
        smart.flash_units.copyback = 4;
        let counters = Counters::of(&json!({ "smart": smart })).unwrap();
        let expected =
            Counters { host_units: 7, flash_units: 9, copyback_units: 4, collections: 3, shared_units: 2 };
        assert_eq!(counters, expected);
        assert_eq!(counters.since(&expected), Counters::default());
        assert!(Counters::of(&json!({ "smart": {} })).is_err());
    }
}
