//! What the paper prints of these figures: the shape of `pebble_fs.toml`.

use serde::Deserialize;

use super::super::printed::PrintedClaim;

/// All of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    pub figure_7: Cleaned,
    pub figure_8: Synced,
    pub figure_9: Kinds,
    pub figure_10: Kinds,
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
    pub tree: SyncedKind,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncedKind {
    pub throughput: PrintedClaim,
    pub amplification: PrintedClaim,
}

/// One figure of each kind of file system.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kinds {
    pub source: String,
    pub nat: PrintedClaim,
    pub tree: PrintedClaim,
}
