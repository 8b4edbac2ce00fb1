//! Constraints on a profile's figures without which no drive can be built.

use tantalum_ftl::Handle;
use tantalum_nand::{MAX_NVM_BYTES, MAX_NVM_LATENCY_NS, MAX_UNITS, UNIT_BYTES, WORD_BYTES};

use super::cache::LEAST_DUMP_PAGES;
use super::firmware::validate_times;
use super::{CacheMode, FlashScheduling, LimitsProfile, Plp, Profile, ZonesProfile};

/// The minimum capacity of a drive.
const LEAST_CAPACITY_BYTES: u64 = 1 << 20;

/// The largest write that a drive may promise to be all or nothing: 256 KiB.
const MAX_ATOMIC_WRITE_UNITS: u32 = 64;

/// More zones than a drive of the largest size has blocks would be refused anyway.
const MAX_ZONES: u32 = 1 << 24;

/// The most over-provisioning that makes sense: the host gets a fifth of the flash.
const MAX_OVER_PROVISIONING_PERCENT: f64 = 400.0;

/// A field with a value that no drive can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field} is {value}: {expected}")]
pub struct InvalidField {
    /// The field with its section, such as `flash.page_bytes`.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// What would be valid.
    pub expected: String,
}

impl Profile {
    /// Checks that a drive can be built from it. [`Profile::from_toml`] does this; call it again after changing a
    /// field.
    pub fn validate(&self) -> Result<(), InvalidField> {
        self.validate_capacity()?;
        self.validate_counts()?;
        self.validate_flash_size()?;
        self.validate_power()?;
        self.validate_atomic_write()?;
        self.validate_fdp()?;
        self.validate_nvm()?;
        self.firmware.validate()?;
        self.spu.validate()?;
        self.validate_spu_memory()
    }

    fn validate_capacity(&self) -> Result<(), InvalidField> {
        let bytes = self.capacity_bytes;
        let below = bytes - bytes % UNIT_BYTES as u64;
        // what no flash could have is refused for that, below
        if bytes < LEAST_CAPACITY_BYTES || bytes != below && below / UNIT_BYTES as u64 <= MAX_UNITS {
            let expected = match below.max(LEAST_CAPACITY_BYTES) {
                LEAST_CAPACITY_BYTES => "it must be a multiple of 4 KiB, at least 1048576".to_owned(),
                below => format!("it must be a multiple of 4 KiB, such as {below}"),
            };
            return Err(invalid("capacity_bytes", bytes, expected));
        }
        let percent = self.over_provisioning_percent;
        if !(percent > 0.0 && percent <= MAX_OVER_PROVISIONING_PERCENT) {
            let expected = format!(
                "it must be above 0 and at most {MAX_OVER_PROVISIONING_PERCENT}; drives have 7 to 28"
            );
            return Err(invalid("over_provisioning_percent", percent, expected));
        }
        if ![4096, 8192, 16384].contains(&self.flash.page_bytes) {
            let expected = "it must be 4096, 8192 or 16384";
            return Err(invalid("flash.page_bytes", self.flash.page_bytes, expected));
        }
        Ok(())
    }

    fn validate_fdp(&self) -> Result<(), InvalidField> {
        match self.fdp {
            Some(fdp) if !(1..=Handle::MOST).contains(&fdp.handles) => {
                Err(invalid("fdp.handles", fdp.handles, format!("it must be 1 to {}", Handle::MOST)))
            }
            _ => Ok(()),
        }
    }

    fn validate_zones(&self) -> Result<(), InvalidField> {
        let Some(ZonesProfile { count, planes, max_open, max_active }) = self.zones else { return Ok(()) };
        let all_planes = self.flash.channels * self.flash.dies_per_channel * self.flash.planes_per_die;
        let limits = [
            ("zones.count", count, MAX_ZONES),
            ("zones.planes", planes, all_planes),
            ("zones.max_active", max_active, count),
            ("zones.max_open", max_open, max_active),
        ];
        match limits.into_iter().find(|(_, value, most)| !(1..=*most).contains(value)) {
            Some((field, value, most)) => Err(invalid(field, value, format!("it must be 1 to {most}"))),
            None => Ok(()),
        }
    }

    fn validate_counts(&self) -> Result<(), InvalidField> {
        let flash = &self.flash;
        let counts = [
            ("flash.channels", u64::from(flash.channels)),
            ("flash.dies_per_channel", flash.dies_per_channel.into()),
            ("flash.planes_per_die", flash.planes_per_die.into()),
            ("flash.pages_per_block", flash.pages_per_block.into()),
            ("flash.channel_bytes_per_second", flash.channel_bytes_per_second),
            ("flash.endurance_cycles", flash.endurance_cycles.into()),
            ("link.bytes_per_second", self.link.bytes_per_second),
            ("limits.atomic_units", self.limits.atomic_units.into()),
            ("limits.atomic_write_units", self.limits.atomic_write_units.into()),
            ("limits.open_transactions", self.limits.open_transactions.into()),
            ("limits.index_dram_bytes", self.limits.index_dram_bytes.unwrap_or(1)),
            ("ftl.wear_spread", self.ftl.wear_spread.into()),
            ("ftl.checkpoint_interval_pages", self.ftl.checkpoint_interval_pages.unwrap_or(1)),
        ];
        match counts.iter().find(|(_, count)| *count == 0) {
            Some((field, count)) => Err(invalid(field, count, "it must be at least 1")),
            None => self.validate_scheduling(),
        }
    }

    fn validate_scheduling(&self) -> Result<(), InvalidField> {
        let suspends = self.flash.scheduling == FlashScheduling::Suspend;
        let settings = [
            ("flash.suspend_ns", self.flash.suspend_ns),
            ("flash.suspensions", self.flash.suspensions.map(u64::from)),
        ];
        for (field, value) in settings {
            match value {
                None if suspends => {
                    return Err(invalid(field, "missing", "scheduling = \"suspend\" needs it"));
                }
                Some(value) if !suspends => {
                    let expected = "it is only for scheduling = \"suspend\"; leave it out";
                    return Err(invalid(field, value, expected));
                }
                _ => {}
            }
        }
        validate_times(&[
            ("flash.suspend_ns", self.flash.suspend_ns.unwrap_or(0)),
            ("link.command_ns", self.link.command_ns),
        ])
    }

    fn validate_flash_size(&self) -> Result<(), InvalidField> {
        let flash = &self.flash;
        let block_rows = [flash.dies_per_channel, flash.planes_per_die, flash.pages_per_block]
            .iter()
            .fold(u64::from(flash.channels), |product, &count| product.saturating_mul(count.into()));
        if block_rows >= MAX_UNITS {
            let expected = format!("one block in each plane would already make {block_rows} pages, too many");
            return Err(invalid("flash.channels", flash.channels, expected));
        }
        self.validate_zones()?;
        if !self.fits(self.capacity_bytes) {
            let without = Profile { zones: None, ..self.clone() };
            if let Some(ZonesProfile { count, .. }) = self.zones
                && without.fits(self.capacity_bytes)
            {
                let expected = "zones of this size take more flash than can be addressed beside the capacity";
                return Err(invalid("zones.count", count, expected));
            }
            let most = self.most_mebibytes();
            let expected = format!("with this over-provisioning it can be at most {most} MiB");
            return Err(invalid("capacity_bytes", self.capacity_bytes, expected));
        }
        Ok(())
    }

    /// Whether the flash of such a capacity, in whole blocks of all planes, can be addressed.
    fn fits(&self, capacity_bytes: u64) -> bool {
        let geometry = Profile { capacity_bytes, ..self.clone() }.geometry();
        geometry.is_ok_and(|geometry| geometry.validate().is_ok())
    }

    /// The largest capacity that fits, in MiB.
    fn most_mebibytes(&self) -> u64 {
        let (mut fits, mut too_large) = (0, (MAX_UNITS * UNIT_BYTES as u64) >> 20);
        while too_large - fits > 1 {
            let middle = fits.midpoint(too_large);
            match self.fits(middle << 20) {
                true => fits = middle,
                false => too_large = middle,
            }
        }
        fits
    }

    fn validate_power(&self) -> Result<(), InvalidField> {
        let (cache, power) = (&self.cache, &self.power);
        if cache.mode != CacheMode::Off && cache.bytes < self.flash.page_bytes.into() {
            let expected = format!("it must hold at least one page, {} bytes", self.flash.page_bytes);
            return Err(invalid("cache.bytes", cache.bytes, expected));
        }
        if cache.mode == CacheMode::Durable && power.plp != Plp::Capacitor {
            return Err(invalid(
                "cache.mode",
                "\"durable\"",
                "a durable cache needs power.plp = \"capacitor\"",
            ));
        }
        if power.plp == Plp::Capacitor && power.dump_bytes < cache.bytes {
            let expected = format!("the capacitor must be able to save the cache, {} bytes", cache.bytes);
            return Err(invalid("power.dump_bytes", power.dump_bytes, expected));
        }
        let least_bytes = LEAST_DUMP_PAGES * u64::from(self.flash.page_bytes);
        if power.plp == Plp::Capacitor && power.dump_bytes < least_bytes {
            let expected = format!(
                "the capacitor must be able to program {LEAST_DUMP_PAGES} pages, {least_bytes} bytes"
            );
            return Err(invalid("power.dump_bytes", power.dump_bytes, expected));
        }
        if power.plp != Plp::Capacitor && power.dump_bytes != 0 {
            let expected = "without power.plp = \"capacitor\" it must be 0";
            return Err(invalid("power.dump_bytes", power.dump_bytes, expected));
        }
        Ok(())
    }
}

impl Profile {
    /// A write that is all or nothing enters the cache at once, while half of it waits, and leaves it in a batch. Half of the
    /// cache may belong to namespaces with logs of their own.
    fn validate_atomic_write(&self) -> Result<(), InvalidField> {
        let LimitsProfile { atomic_write_units: units, atomic_units, .. } = self.limits;
        let cache_units = match self.cache.mode {
            CacheMode::Off => u64::MAX,
            CacheMode::Volatile | CacheMode::Durable => self.cache_units() as u64,
        };
        let most = u64::from(MAX_ATOMIC_WRITE_UNITS.min(atomic_units)).min(cache_units / 4).max(1);
        if u64::from(units) > most {
            let expected = format!(
                "it must be at most {most}: {MAX_ATOMIC_WRITE_UNITS}, limits.atomic_units, and a quarter of the cache"
            );
            return Err(invalid("limits.atomic_write_units", units, expected));
        }
        Ok(())
    }

    fn validate_spu_memory(&self) -> Result<(), InvalidField> {
        let Some((_, bytes)) = self.spu_memory() else { return Ok(()) };
        if self.nvm.is_some() {
            let expected = "a drive with it has no section [nvm]";
            return Err(invalid("spu.memory", "given", expected));
        }
        if bytes > MAX_NVM_BYTES {
            let expected = format!("with it spu.memory takes {bytes}, and at most {MAX_NVM_BYTES}");
            return Err(invalid("capacity_bytes", self.capacity_bytes, expected));
        }
        Ok(())
    }

    fn validate_nvm(&self) -> Result<(), InvalidField> {
        let Some(nvm) = &self.nvm else {
            return match self.power.plp {
                Plp::Nvm => Err(invalid("power.plp", "\"nvm\"", "it needs a section [nvm]")),
                Plp::None | Plp::Capacitor => Ok(()),
            };
        };
        if !(WORD_BYTES..=MAX_NVM_BYTES).contains(&nvm.bytes) || !nvm.bytes.is_multiple_of(WORD_BYTES) {
            let expected = format!("it must be a multiple of 8, at least 8 and at most {MAX_NVM_BYTES}");
            return Err(invalid("nvm.bytes", nvm.bytes, expected));
        }
        let lists = self.file_list_bytes();
        if lists > nvm.bytes {
            let expected = format!("the lists of {} files and this capacity take {lists}", nvm.files);
            return Err(invalid("nvm.bytes", nvm.bytes, expected));
        }
        if nvm.latency_ns > MAX_NVM_LATENCY_NS {
            let expected = format!("it must be at most {MAX_NVM_LATENCY_NS}");
            return Err(invalid("nvm.latency_ns", nvm.latency_ns, expected));
        }
        if nvm.bytes_per_second == 0 {
            return Err(invalid("nvm.bytes_per_second", 0, "it must be at least 1"));
        }
        Ok(())
    }
}

pub(super) fn invalid(
    field: &'static str,
    value: impl ToString,
    expected: impl Into<String>,
) -> InvalidField {
    InvalidField { field, value: value.to_string(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::NvmProfile;

    fn rejected_field(change: impl FnOnce(&mut Profile)) -> &'static str {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        change(&mut profile);
        profile.validate().expect_err("the change makes the profile impossible").field
    }

    #[test]
    fn capacities_that_are_zero_or_odd_are_rejected() {
        assert_eq!(rejected_field(|p| p.capacity_bytes = 0), "capacity_bytes");
        assert_eq!(rejected_field(|p| p.capacity_bytes = (1 << 30) + 1), "capacity_bytes");
        assert_eq!(rejected_field(|p| p.capacity_bytes = 4096), "capacity_bytes");
        assert_eq!(rejected_field(|p| p.capacity_bytes = 1 << 42), "capacity_bytes");
        assert_eq!(rejected_field(|p| p.capacity_bytes = u64::MAX << 20), "capacity_bytes");
        assert_eq!(rejected_field(|p| p.capacity_bytes = (1 << 20) - 4096), "capacity_bytes");
    }

    /// It was "a multiple of 4 KiB, such as 18446744073709547520".
    #[test]
    fn no_capacity_is_suggested_that_would_be_refused() {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        profile.capacity_bytes = u64::MAX;
        let refused = profile.validate().unwrap_err().to_string();
        assert!(refused.contains("can be at most 3919790 MiB"), "{refused}");
    }

    #[test]
    fn impossible_over_provisioning_is_rejected() {
        for percent in [0.0, -7.0, 400.5, f64::NAN, f64::INFINITY] {
            let field = rejected_field(|p| p.over_provisioning_percent = percent);
            assert_eq!(field, "over_provisioning_percent", "{percent}");
        }
    }

    #[test]
    fn zero_counts_and_huge_ones_are_rejected() {
        assert_eq!(rejected_field(|p| p.flash.dies_per_channel = 0), "flash.dies_per_channel");
        assert_eq!(rejected_field(|p| p.flash.endurance_cycles = 0), "flash.endurance_cycles");
        assert_eq!(rejected_field(|p| p.link.bytes_per_second = 0), "link.bytes_per_second");
        assert_eq!(rejected_field(|p| p.flash.channels = u32::MAX), "flash.channels");
        assert_eq!(rejected_field(|p| p.limits.index_dram_bytes = Some(0)), "limits.index_dram_bytes");
        let field = rejected_field(|p| p.ftl.checkpoint_interval_pages = Some(0));
        assert_eq!(field, "ftl.checkpoint_interval_pages");
    }

    #[test]
    fn times_whose_sums_would_overflow_are_rejected() {
        assert_eq!(rejected_field(|p| p.link.command_ns = u64::MAX), "link.command_ns");
        let suspend = rejected_field(|p| {
            p.flash.scheduling = FlashScheduling::Suspend;
            (p.flash.suspend_ns, p.flash.suspensions) = (Some(1 << 40), Some(1));
        });
        assert_eq!(suspend, "flash.suspend_ns");
    }

    #[test]
    fn cache_and_power_must_fit_each_other() {
        assert_eq!(rejected_field(|p| p.cache.bytes = 4096), "cache.bytes");
        assert_eq!(rejected_field(|p| p.cache.mode = CacheMode::Durable), "cache.mode");
        assert_eq!(rejected_field(|p| p.power.plp = Plp::Capacitor), "power.dump_bytes");
        assert_eq!(rejected_field(|p| p.power.dump_bytes = 1 << 20), "power.dump_bytes");
        let field = rejected_field(|p| {
            p.cache.bytes = p.flash.page_bytes.into();
            (p.power.plp, p.power.dump_bytes) = (Plp::Capacitor, 17 * p.cache.bytes);
        });
        assert_eq!(field, "power.dump_bytes", "16 pages beside a cache of two");
    }

    #[test]
    fn an_atomic_write_fits_in_a_batch_and_in_the_cache() {
        let field = "limits.atomic_write_units";
        assert_eq!(rejected_field(|p| p.limits.atomic_write_units = 0), field);
        assert_eq!(rejected_field(|p| p.limits.atomic_write_units = 65), field);
        assert_eq!(rejected_field(|p| (p.limits.atomic_write_units, p.limits.atomic_units) = (9, 8)), field);
        let cache = |units| {
            move |p: &mut Profile| {
                p.limits.atomic_write_units = 16;
                p.cache.bytes = units * UNIT_BYTES as u64;
            }
        };
        assert_eq!(rejected_field(cache(63)), field);
        let mut profile = Profile::load("tlc-nvme").unwrap();
        cache(64)(&mut profile);
        assert_eq!(profile.validate(), Ok(()));
        (profile.cache.mode, profile.cache.bytes) = (CacheMode::Off, 0);
        profile.limits.atomic_write_units = 64;
        assert_eq!(profile.validate(), Ok(()), "nothing waits");
    }

    #[test]
    fn memory_must_be_possible_and_there_if_it_protects() {
        let nvm = |change: fn(&mut NvmProfile)| {
            rejected_field(|p| {
                let mut nvm =
                    NvmProfile { bytes: 1 << 30, latency_ns: 100, bytes_per_second: 1 << 30, files: 0 };
                change(&mut nvm);
                p.nvm = Some(nvm);
            })
        };
        assert_eq!(rejected_field(|p| p.power.plp = Plp::Nvm), "power.plp");
        assert_eq!(nvm(|nvm| nvm.bytes = 0), "nvm.bytes");
        assert_eq!(nvm(|nvm| nvm.bytes = 1001), "nvm.bytes");
        assert_eq!(nvm(|nvm| nvm.latency_ns = u64::MAX), "nvm.latency_ns");
        assert_eq!(nvm(|nvm| nvm.bytes_per_second = 0), "nvm.bytes_per_second");
    }

    #[test]
    fn a_terabyte_a_megabyte_and_one_unit_more_are_possible() {
        for capacity_bytes in [1 << 20, (1 << 20) + 4096, 1 << 40] {
            let profile = Profile { capacity_bytes, ..Profile::load("tlc-nvme").unwrap() };
            assert_eq!(profile.validate(), Ok(()));
        }
    }

    #[test]
    fn the_most_capacity_that_an_error_names_is_taken_and_no_more() {
        for (name, percent) in [("tlc-nvme", 7.0), ("tlc-nvme", 0.3), ("durassd", 28.0)] {
            let mut profile = Profile::load(name).unwrap();
            profile.over_provisioning_percent = percent;
            profile.capacity_bytes = 100 << 40;
            let error = profile.validate().unwrap_err().to_string();
            let most: u64 =
                error.split("at most ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
            profile.capacity_bytes = most << 20;
            profile.validate().unwrap();
            profile.geometry().unwrap().validate().unwrap();
            profile.capacity_bytes += 1 << 20;
            assert!(profile.validate().unwrap_err().to_string().contains(&format!("at most {most} MiB")));
        }
    }
}
