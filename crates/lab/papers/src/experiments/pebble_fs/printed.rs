//! What the paper prints of these figures: the shape of `pebble_fs.toml`.

use serde::Deserialize;

use super::super::printed::PrintedClaim;

/// What `pebble_fs.toml` says of the figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    pub figure_7: Cleaned,
    pub figure_8: Synced,
    pub figure_9: Kinds,
    pub figure_10: Kinds,
    #[cfg_attr(not(feature = "servers"), expect(dead_code, reason = "the experiment is not in this build"))]
    pub servers: Kinds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cleaned {
    pub source: String,
    pub nat: CleanedNat,
    pub tree: CleanedTree,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanedNat {
    pub time: PrintedClaim,
    pub bytes: PrintedClaim,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanedTree {
    pub bytes: PrintedClaim,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synced {
    pub source: String,
    pub nat: SyncedKind,
    pub nat_in_place: SyncedKind,
    pub tree: SyncedKind,
}

impl Synced {
    /// In the order of [`super::BASELINES`].
    pub fn kinds(&self) -> [&SyncedKind; 3] {
        [&self.nat, &self.nat_in_place, &self.tree]
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncedKind {
    pub throughput: PrintedClaim,
    pub amplification: PrintedClaim,
}

/// One figure of each kind of file system. `nat_in_place` is of a baseline that the thesis does not have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kinds {
    pub source: String,
    pub nat: PrintedClaim,
    pub nat_in_place: PrintedClaim,
    pub tree: PrintedClaim,
}

impl Kinds {
    /// In the order of [`super::BASELINES`].
    pub fn kinds(&self) -> [&PrintedClaim; 3] {
        [&self.nat, &self.nat_in_place, &self.tree]
    }
}
