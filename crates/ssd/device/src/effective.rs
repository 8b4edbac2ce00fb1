//! What a drive has of what its profile asks for: flash comes in whole blocks, and blocks shrink on small drives.

use std::fmt;

use serde::Serialize;
use tantalum_nand::Geometry;

use crate::profile::Profile;

/// A share by which a figure may differ from what was asked, without a word about it.
const MOST: f64 = 0.1;

/// Over-provisioning and geometry as they are, beside what was asked for. Its text is `9.4 % over-provisioning (7 % asked)`;
/// what was asked for is said where that differs much.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Effective {
    #[serde(skip)]
    asked_percent: f64,
    /// Flash beyond the capacity and the zones, as a percentage of the capacity.
    #[serde(rename = "effective_over_provisioning_percent")]
    pub over_provisioning_percent: f64,
    #[serde(skip)]
    asked_pages: u32,
    /// The flash.
    #[serde(with = "GeometryFields")]
    pub geometry: Geometry,
}

/// How a geometry is serialized.
#[derive(Serialize)]
#[serde(remote = "Geometry")]
struct GeometryFields {
    channels: u32,
    dies_per_channel: u32,
    planes_per_die: u32,
    blocks_per_plane: u32,
    pages_per_block: u32,
    page_bytes: u32,
}

impl Effective {
    /// Of a profile.
    ///
    /// # Panics
    ///
    /// If no drive can have this profile; [`Profile::validate`] refuses it.
    pub fn of(profile: &Profile) -> Effective {
        let geometry = profile.geometry().expect("a profile is checked before it is used");
        let planes = u64::from(geometry.planes());
        let zone_blocks = profile.zone_blocks().div_ceil(planes) * planes;
        let zone_units = zone_blocks as f64 * f64::from(geometry.units_per_block());
        Effective {
            asked_percent: profile.over_provisioning_percent,
            over_provisioning_percent: 100.0
                * ((f64::from(geometry.units()) - zone_units) / profile.capacity_units() as f64 - 1.0),
            asked_pages: profile.flash.pages_per_block,
            geometry,
        }
    }

    /// The flash in words: `8 channels x 2 dies x 1 planes x 10 blocks x 8 pages x 16 KiB`.
    pub fn shape(&self) -> String {
        let Geometry {
            channels, dies_per_channel, planes_per_die, blocks_per_plane, pages_per_block, ..
        } = self.geometry;
        format!(
            "{channels} channels x {dies_per_channel} dies x {planes_per_die} planes x {blocks_per_plane} blocks \
             x {pages_per_block} pages x {} KiB",
            self.geometry.page_bytes / 1024
        )
    }

    /// Why figures differ much from those asked for; a line for each.
    pub fn warnings(&self) -> Vec<String> {
        let Effective { asked_percent, over_provisioning_percent: percent, asked_pages, geometry } = *self;
        let pages = geometry.pages_per_block;
        let mut lines = Vec::new();
        if differs(asked_percent, percent) {
            lines.push(format!(
                "the drive has {percent:.1} % over-provisioning where {asked_percent} % were asked for, because flash comes in \
                 whole blocks in each plane"
            ));
        }
        if differs(asked_pages.into(), pages.into()) {
            lines.push(format!(
                "the drive's blocks have {pages} pages where the profile has {asked_pages}, so that open blocks take little of its flash \
                 beyond the capacity"
            ));
        }
        lines
    }
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match differs(self.asked_percent, self.over_provisioning_percent) {
            false => write!(f, "{} % over-provisioning", self.asked_percent),
            true => write!(
                f,
                "{:.1} % over-provisioning ({} % asked)",
                self.over_provisioning_percent, self.asked_percent
            ),
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
        assert!((large.over_provisioning_percent - 7.0).abs() < 0.2, "{large:?}");
        let small = tlc(128 << 20, 7.0);
        assert_eq!(small.to_string(), "9.4 % over-provisioning (7 % asked)");
        let warnings = small.warnings();
        assert!(warnings[0].contains("has 9.4 % over-provisioning where 7 % were asked for"), "{warnings:?}");
        assert!(warnings[1].contains("blocks have 8 pages where the profile has 256"), "{warnings:?}");
    }
}
