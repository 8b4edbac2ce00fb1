//! What a function of the system can access in the calling program: its memory, its call, its instructions.

use std::fmt;
use std::ops::Range;

use wasmi::{Caller, Error, Memory, TrapCode};

use crate::activation::{Activation, Location, Op, OutBuffer};
use crate::message::BODY_BYTES;

/// The module of all imports.
pub(super) const MODULE: &str = "tantalum";
/// Counters of a program.
pub const COUNTERS: usize = 8;

/// Instructions for a call into the system.
pub(super) const CALL_COST: u64 = 4;
/// Instructions to set up a transfer.
pub(super) const DMA_COST: u64 = 12;

/// The system's state of one program's copy on one processor.
#[derive(Debug)]
pub(crate) struct Context {
    pub memory: Option<Memory>,
    pub place: Location,
    /// The running call.
    pub activation: Option<Activation>,
    pub op: Option<Op>,
    pub serial: Vec<u8>,
    pub counters: [u64; COUNTERS],
}

impl Context {
    pub fn new(place: Location) -> Context {
        Context {
            memory: None,
            place,
            activation: None,
            op: None,
            serial: Vec::new(),
            counters: [0; COUNTERS],
        }
    }
}

/// Suspends a handler until the system has done what it requested.
#[derive(Debug)]
struct Suspended;

impl fmt::Display for Suspended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("suspended")
    }
}

impl wasmi::errors::HostError for Suspended {}

pub(super) type Here<'a> = Caller<'a, Context>;

/// Access to the calling program.
pub(super) trait Calling {
    /// Charges instructions, and the time that bytes take through local memory.
    fn pay(&mut self, instructions: u64, bytes: u32) -> Result<(), Error>;
    fn memory(&mut self) -> Result<(&mut [u8], &mut Context), Error>;
    fn parts(&mut self) -> Result<(&mut [u8], &mut Activation), Error>;
    fn call(&mut self) -> Result<&mut Activation, Error>;
    /// Suspends the handler until the system has done this.
    fn ask(&mut self, op: Op) -> Result<i32, Error>;
}

impl Calling for Here<'_> {
    fn pay(&mut self, instructions: u64, bytes: u32) -> Result<(), Error> {
        // longer transfers are refused, or fault
        let bytes = u64::from(bytes).min(BODY_BYTES as u64);
        let cost = instructions + bytes / self.data().place.bytes_per_instruction;
        let left = self.get_fuel()?.checked_sub(cost).ok_or(TrapCode::OutOfFuel)?;
        self.set_fuel(left)
    }

    fn memory(&mut self) -> Result<(&mut [u8], &mut Context), Error> {
        match self.data().memory {
            Some(memory) => Ok(memory.data_and_store_mut(self)),
            None => Ok((&mut [], self.data_mut())),
        }
    }

    fn parts(&mut self) -> Result<(&mut [u8], &mut Activation), Error> {
        let (memory, context) = self.memory()?;
        Ok((memory, context.activation.as_mut().ok_or_else(outside)?))
    }

    fn call(&mut self) -> Result<&mut Activation, Error> {
        self.data_mut().activation.as_mut().ok_or_else(outside)
    }

    fn ask(&mut self, op: Op) -> Result<i32, Error> {
        self.data_mut().op = Some(op);
        Err(Error::host(Suspended))
    }
}

fn outside() -> Error {
    Error::new("a function of tantalum_spu.h was called while the program was installed")
}

pub(super) fn range(address: u64, length: u32) -> Option<Range<u64>> {
    Some(address..address.checked_add(length.into())?)
}

pub(super) fn slice(memory: &[u8], at: u32, length: u32) -> Result<&[u8], Error> {
    memory.get(at as usize..at as usize + length as usize).ok_or_else(|| beyond(memory.len()))
}

pub(super) fn slice_mut(memory: &mut [u8], at: u32, length: u32) -> Result<&mut [u8], Error> {
    let bytes = memory.len();
    memory.get_mut(at as usize..at as usize + length as usize).ok_or_else(|| beyond(bytes))
}

/// The fault of a pointer beyond a memory of this many bytes.
fn beyond(bytes: usize) -> Error {
    match bytes {
        0 => Error::new("a function of tantalum_spu.h got a pointer, and the module declares no memory"),
        _ => TrapCode::MemoryOutOfBounds.into(),
    }
}

pub(super) fn out_buffer(memory: &[u8], at: u32, bytes: u32, length_at: u32) -> Result<OutBuffer, Error> {
    slice(memory, at, bytes)?;
    if length_at != 0 {
        slice(memory, length_at, 4)?;
    }
    Ok(OutBuffer { at, bytes, length_at })
}
