//! Checks whether this machine has the memory for an experiment: an error is better than being killed.

use std::fs;

use crate::error::OutOfMemory;

/// Fails if less than `needed_bytes` are available. If the system does not report it, there is assumed to be enough.
pub fn require(needed_bytes: u64) -> Result<(), OutOfMemory> {
    match available_bytes() {
        Some(available_bytes) if available_bytes < needed_bytes => {
            Err(OutOfMemory { needed_bytes, available_bytes })
        }
        _ => Ok(()),
    }
}

fn available_bytes() -> Option<u64> {
    available_in(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_from_the_systems_words() {
        assert_eq!(available_in("MemTotal: 9 kB\nMemAvailable:   16 kB\n"), Some(16384));
        assert_eq!(available_in("nothing"), None);
    }

    #[test]
    fn more_than_any_machine_has_is_refused() {
        assert!(require(1).is_ok());
        assert!(available_bytes().is_none() || require(u64::MAX).is_err());
    }
}
