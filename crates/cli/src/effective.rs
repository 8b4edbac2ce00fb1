//! What a drive has of what its profile asks for: flash comes in whole blocks, and blocks shrink on small drives.

use std::fmt;

use tantalum::{Profile, UNIT_BYTES};

/// A share by which a figure may differ from what was asked, without a word about it.
const MOST: f64 = 0.1;

/// Over-provisioning and blocks, as asked and as they are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effective {
    asked_percent: f64,
    /// Flash beyond the capacity, as a percentage of it.
    pub percent: f64,
    asked_pages: u32,
    pages: u32,
}

impl Effective {
    /// Of a profile that makes a drive.
    pub fn of(profile: &Profile) -> Effective {
        let geometry = profile.geometry().expect("a profile is checked before it is used");
        let capacity_units = (profile.capacity_bytes / UNIT_BYTES as u64) as f64;
        Effective {
            asked_percent: profile.over_provisioning_percent,
            percent: 100.0 * (f64::from(geometry.units()) / capacity_units - 1.0),
            asked_pages: profile.flash.pages_per_block,
            pages: geometry.pages_per_block,
        }
    }

    /// Why figures differ much from those asked for; a line for each.
    pub fn warnings(&self) -> Vec<String> {
        let Effective { asked_percent, percent, asked_pages, pages } = *self;
        let mut lines = Vec::new();
        if differs(asked_percent, percent) {
            lines.push(format!(
                "it has {percent:.1} % over-provisioning where {asked_percent} % were asked for, because flash comes in \
                 whole blocks in each plane"
            ));
        }
        if differs(asked_pages.into(), pages.into()) {
            lines.push(format!(
                "its blocks have {pages} pages where the profile has {asked_pages}, so that open blocks take little of its flash \
                 beyond the capacity"
            ));
        }
        lines
    }
}

/// `9.4 % over-provisioning`, with what was asked for where that differs much.
impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match differs(self.asked_percent, self.percent) {
            false => write!(f, "{} % over-provisioning", self.asked_percent),
            true => write!(f, "{:.1} % over-provisioning ({} % asked)", self.percent, self.asked_percent),
        }
    }
}

fn differs(asked: f64, found: f64) -> bool {
    (found - asked).abs() > MOST * asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlc(capacity_bytes: u64, percent: f64) -> Effective {
        let profile = Profile::load("tlc-nvme").unwrap();
        Effective::of(&Profile { capacity_bytes, over_provisioning_percent: percent, ..profile })
    }

    #[test]
    fn rounding_is_told_where_it_matters() {
        let large = tlc(64 << 30, 7.0);
        assert_eq!(large.to_string(), "7 % over-provisioning");
        assert!((large.percent - 7.0).abs() < 0.2, "{large:?}");
        let small = tlc(128 << 20, 7.0);
        assert_eq!(small.to_string(), "9.4 % over-provisioning (7 % asked)");
        let warnings = small.warnings();
        assert!(warnings[0].contains("has 9.4 % over-provisioning where 7 % were asked for"), "{warnings:?}");
        assert!(warnings[1].contains("blocks have 8 pages where the profile has 256"), "{warnings:?}");
    }
}
