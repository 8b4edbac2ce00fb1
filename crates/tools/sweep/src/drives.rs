//! What the drives of runs have of what was asked for: flash comes in whole blocks.

use std::collections::HashMap;

use tantalum::{Effective, Geometry};

use crate::error::SweepError;
use crate::run::{Row, Run, Value, integer, number};

/// Figures of drives. They follow from the settings, so runs that failed have them too. Many runs have the same drive, so
/// each is worked out once.
#[derive(Default)]
pub(crate) struct Drives<'a> {
    known: HashMap<&'a str, DriveFigures>,
}

/// One drive.
#[derive(Clone)]
pub(crate) struct DriveFigures {
    /// Its figures, with the warning in the last column.
    pub figures: Row,
    /// Why it differs much from what was asked for.
    pub warning: Option<String>,
}

impl<'a> Drives<'a> {
    /// The drive of a run.
    pub(crate) fn of(&mut self, run: &'a Run) -> Result<&DriveFigures, SweepError> {
        if !self.known.contains_key(&run.profile[..]) {
            self.known.insert(&run.profile, drive(&Effective::of(&run.profile()?)));
        }
        Ok(&self.known[&run.profile[..]])
    }
}

fn drive(effective: &Effective) -> DriveFigures {
    let Geometry {
        channels,
        dies_per_channel,
        planes_per_die,
        blocks_per_plane,
        pages_per_block,
        page_bytes,
    } = effective.geometry;
    let mut figures: Row = Vec::new();
    let mut put = |name: &str, value: Option<Value>| figures.push((name.to_owned(), value));
    put("effective_over_provisioning_percent", number(effective.over_provisioning_percent));
    put("effective_channels", integer(channels.into()));
    put("effective_dies_per_channel", integer(dies_per_channel.into()));
    put("effective_planes_per_die", integer(planes_per_die.into()));
    put("effective_blocks_per_plane", integer(blocks_per_plane.into()));
    put("effective_pages_per_block", integer(pages_per_block.into()));
    put("effective_page_bytes", integer(page_bytes.into()));
    let warnings = effective.warnings();
    let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
    put("warning", warning.clone().map(Value::Text));
    DriveFigures { figures, warning }
}
