//! How many units the cache holds: at most what a capacitor can save of it.

use tantalum_canaries::guard;
use tantalum_nand::UNIT_BYTES;

use super::{CacheMode, Plp, Profile};

/// Pages of the capacitor's budget reserved for journal pages and for a partly filled page.
const DUMP_RESERVE_PAGES: u64 = 16;

/// Pages of the smallest cache.
const CACHE_PAGES: u64 = 2;

/// Pages that a capacitor must be able to program at least.
pub(super) const LEAST_DUMP_PAGES: u64 = DUMP_RESERVE_PAGES + CACHE_PAGES;

impl Profile {
    /// Units that the cache holds: no more than the capacitor can dump (hazard 12).
    pub(crate) fn cache_units(&self) -> usize {
        let units = match self.cache.mode {
            CacheMode::Off => u64::from(self.flash.page_bytes) / UNIT_BYTES as u64,
            CacheMode::Volatile | CacheMode::Durable => self.cache.bytes / UNIT_BYTES as u64,
        };
        let units_per_page = u64::from(self.flash.page_bytes) / UNIT_BYTES as u64;
        let dumped = match self.power.plp {
            Plp::None | Plp::Nvm => u64::MAX,
            Plp::Capacitor => {
                let saved = self.power.dump_bytes / UNIT_BYTES as u64;
                guard!(DumpUnbounded, saved.saturating_sub(DUMP_RESERVE_PAGES * units_per_page))
            }
        };
        units.min(dumped).max(CACHE_PAGES * units_per_page) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of four units.
    fn cache_units(plp: Plp, mode: CacheMode, cache_units: u64, dump_pages: u64) -> usize {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        profile.flash.page_bytes = 4 * UNIT_BYTES as u32;
        (profile.power.plp, profile.cache.mode) = (plp, mode);
        profile.cache.bytes = cache_units * UNIT_BYTES as u64;
        profile.power.dump_bytes = dump_pages * 4 * UNIT_BYTES as u64;
        profile.cache_units()
    }

    #[test]
    fn the_cache_holds_what_the_capacitor_dumps_and_two_pages_at_least() {
        assert_eq!(cache_units(Plp::None, CacheMode::Volatile, 1000, 0), 1000);
        assert_eq!(cache_units(Plp::Capacitor, CacheMode::Durable, 1000, 1000), 1000);
        assert_eq!(cache_units(Plp::Capacitor, CacheMode::Durable, 1000, DUMP_RESERVE_PAGES + 20), 80);
        assert_eq!(cache_units(Plp::Capacitor, CacheMode::Durable, 1000, 1), 8);
        assert_eq!(cache_units(Plp::None, CacheMode::Off, 1000, 0), 8);
    }
}
