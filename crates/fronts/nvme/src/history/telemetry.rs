//! Telemetry (Base, sections 5.16.1.8 and 5.16.1.9): the state of the drive at one time, as JSON, for people. A host asks for it, or the
//! drive keeps it when something has gone wrong, until a host has read it.

use parking_lot::Mutex;
use serde_json::json;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::serve::BlockNamespace;
use crate::subsystem::Subsystem;
use crate::wire::identify::empty;
use crate::wire::log_page::id;
use crate::wire::text;

/// Bytes of a data block, and of the header.
const BLOCK_BYTES: usize = 512;

/// What precedes the data.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    page: u8,
    reserved: [u8; 4],
    ieee: [u8; 3],
    /// The last blocks of areas 1 to 3.
    last_blocks: [U16; 3],
    reserved2: [u8; 2],
    last_block_of_area_4: U32,
    reserved3: [u8; 361],
    /// How often a host has asked for one; only in the page that hosts ask for.
    host_generation: u8,
    /// Whether the drive has kept one.
    is_kept: u8,
    /// How often the drive has kept one.
    generation: u8,
    reason: [u8; 128],
}

/// The telemetry of a drive.
#[derive(Default)]
pub struct Telemetry(Mutex<State>);

#[derive(Default)]
struct State {
    asked: Vec<u8>,
    host_generation: u8,
    kept: Option<(Vec<u8>, String)>,
    generation: u8,
}

/// The state of the drive, in whole blocks.
fn state_of(subsystem: &Subsystem) -> Vec<u8> {
    let (table, sanitize) = (subsystem.namespaces.table(), subsystem.namespaces.sanitize());
    let controllers = subsystem.controllers();
    let device = subsystem.queue.drive().lock();
    let state = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "profile": device.profile().name,
        "has_power": device.has_power(),
        "drive_ns": device.time_ns(),
        "smart": device.smart(),
        "recovery": device.recovery(),
        "mapped_units": device.mapped_units(),
        "block_namespaces": BlockNamespace::all(&table),
        "key_value_namespaces": device.namespaces().len(),
        "sanitize": format!("{:?}", sanitize.state),
        "controllers": controllers,
    });
    drop(device);
    let mut state = serde_json::to_vec_pretty(&state).expect("it has numbers and texts alone");
    state.resize(state.len().next_multiple_of(BLOCK_BYTES), b' ');
    state
}

impl Telemetry {
    /// A host asks for the state of the drive as it is now.
    pub fn ask(&self, subsystem: &Subsystem) {
        let asked = state_of(subsystem);
        let mut state = self.0.lock();
        state.asked = asked;
        state.host_generation = state.host_generation.wrapping_add(1);
    }

    /// Something has gone wrong: the drive keeps its state, unless it has one that no host has read. Controllers are told.
    pub fn note(&self, subsystem: &Subsystem, reason: &str) {
        let kept = state_of(subsystem);
        {
            let mut state = self.0.lock();
            if state.kept.is_some() {
                return;
            }
            state.kept = Some((kept, reason.to_owned()));
            state.generation = state.generation.wrapping_add(1);
        }
        subsystem.io_controllers().iter().for_each(|controller| controller.tell_telemetry());
    }

    /// The log page that hosts ask for.
    pub fn asked(&self) -> Vec<u8> {
        let state = self.0.lock();
        let mut header = header_of(id::TELEMETRY_HOST, &state.asked, &state);
        header.host_generation = state.host_generation;
        [header.as_bytes(), &state.asked].concat()
    }

    /// The log page of what the drive has kept.
    pub fn kept(&self) -> Vec<u8> {
        let state = self.0.lock();
        let (kept, reason) = state.kept.as_ref().map_or((&[][..], ""), |(kept, reason)| (kept, reason));
        let mut header = header_of(id::TELEMETRY_CONTROLLER, kept, &state);
        header.reason = text(reason, 0);
        [header.as_bytes(), kept].concat()
    }

    /// A host has read what the drive has kept.
    pub fn was_read(&self) {
        self.0.lock().kept = None;
    }
}

/// All data are in area 1, which the others have as well.
fn header_of(page: u8, data: &[u8], state: &State) -> Header {
    let mut header: Header = empty();
    header.page = page;
    header.last_blocks = [((data.len() / BLOCK_BYTES) as u16).into(); 3];
    header.is_kept = state.kept.is_some().into();
    header.generation = state.generation;
    header
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!((size_of::<Header>(), offset_of!(Header, last_blocks)), (512, 8));
        assert_eq!((offset_of!(Header, host_generation), offset_of!(Header, is_kept)), (381, 382));
        assert_eq!((offset_of!(Header, generation), offset_of!(Header, reason)), (383, 384));
    }
}
