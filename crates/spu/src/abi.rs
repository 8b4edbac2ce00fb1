//! The functions of `tantalum_spu.h`, as the runtime offers them to programs.
//!
//! Invariants: a pointer outside a program's memory is a fault of that program; what a function costs is counted like
//! instructions; what others could notice is not done here but handed to the system as an [`Op`].

use std::fmt;
use std::ops::Range;

use wasmi::{Caller, Engine, Error, Linker, Memory, TrapCode};

use crate::activation::{Activation, Draft, Op, Part, Place, Room, TICKETS};
use crate::answer;
use crate::message::BODY_BYTES;
use crate::names::ProgramId;
use crate::stage::How;
use crate::stripes::STRIPE_BYTES;

/// Where imports come from.
const MODULE: &str = "tantalum";
/// Bytes that a program's serial port keeps.
const SERIAL_BYTES: usize = 4096;
/// Counters of a program.
pub const COUNTERS: usize = 8;

/// Instructions of a call into the system.
const CALL_COST: u64 = 4;
/// Instructions to set up a transfer.
const DMA_COST: u64 = 12;

/// What belongs to one program's copy on one processor.
#[derive(Debug)]
pub(crate) struct Context {
    pub memory: Option<Memory>,
    pub place: Place,
    /// The call that runs now.
    pub activation: Option<Activation>,
    pub op: Option<Op>,
    pub serial: Vec<u8>,
    pub counters: [u64; COUNTERS],
}

/// A handler stops here until the system has done what it asked for.
#[derive(Debug)]
struct Suspended;

impl fmt::Display for Suspended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("suspended")
    }
}

impl wasmi::errors::HostError for Suspended {}

type Here<'a> = Caller<'a, Context>;

/// All functions that a program may import.
pub(crate) fn linker(engine: &Engine) -> Linker<Context> {
    let mut linker = Linker::new(engine);
    request_functions(&mut linker)
        .and_then(|()| sending_functions(&mut linker))
        .and_then(|()| nvm_functions(&mut linker))
        .and_then(|()| other_functions(&mut linker))
        .expect("no name is defined twice");
    linker
}

/// The functions' names.
const FUNCTIONS: &[&str] = &[
    "receive",
    "receive_nvm",
    "remaining",
    "respond",
    "reply",
    "origin",
    "caller",
    "request_start",
    "request_append",
    "request_append_nvm",
    "request_finish",
    "wait",
    "call",
    "nvm_read",
    "nvm_write",
    "nvm_copy",
    "nvm_commit",
    "nvm_discard",
    "nvm_flush",
    "nvm_check",
    "region",
    "kv_get",
    "kv_next",
    "processor",
    "processors",
    "print",
    "count",
];

/// Whether a program may import this.
pub(crate) fn is_known(module: &str, name: &str) -> bool {
    module == MODULE && FUNCTIONS.contains(&name)
}

fn request_functions(linker: &mut Linker<Context>) -> Result<(), wasmi::errors::LinkerError> {
    linker
        .func_wrap(MODULE, "receive", |mut here: Here<'_>, to: u32, length: u32| {
            here.pay(DMA_COST, length)?;
            let (memory, call) = here.parts()?;
            let target = slice_mut(memory, to, length)?;
            let Some(body) = call.next_bytes(length) else { return Ok(answer::SHORT) };
            target.copy_from_slice(body);
            Ok(answer::OK)
        })?
        .func_wrap(MODULE, "receive_nvm", |mut here: Here<'_>, address: u64, length: u32| {
            here.pay(DMA_COST, 0)?;
            let Some(range) = range(address, length) else { return Ok(answer::BAD_ARGUMENT) };
            let Some(body) = here.call()?.next_bytes(length) else { return Ok(answer::SHORT) };
            let bytes = body.to_vec();
            here.ask(Op::NvmWrite { range, bytes })
        })?
        .func_wrap(MODULE, "remaining", |mut here: Here<'_>| {
            here.pay(CALL_COST, 0)?;
            let call = here.call()?;
            Ok((call.message.body.len() - call.received) as u32)
        })?
        .func_wrap(MODULE, "respond", |mut here: Here<'_>, status: i32| {
            here.pay(CALL_COST, 0)?;
            match here.call()?.is_answered {
                true => Ok(answer::NOT_ALLOWED),
                false => here.ask(Op::Respond(status)),
            }
        })?
        .func_wrap(MODULE, "reply", |mut here: Here<'_>, from: u32, length: u32| {
            here.pay(DMA_COST, length)?;
            let (memory, call) = here.parts()?;
            let bytes = slice(memory, from, length)?;
            if call.reply.len() + bytes.len() > BODY_BYTES {
                return Ok(answer::NO_ROOM);
            }
            call.reply.extend_from_slice(bytes);
            Ok(answer::OK)
        })?
        .func_wrap(MODULE, "origin", |mut here: Here<'_>| {
            here.pay(CALL_COST, 0)?;
            Ok(here.call()?.message.origin.endpoint.number())
        })?
        .func_wrap(MODULE, "caller", |mut here: Here<'_>| {
            here.pay(CALL_COST, 0)?;
            Ok(here.call()?.message.caller.map_or(0, |program| program.0))
        })?;
    Ok(())
}

fn sending_functions(linker: &mut Linker<Context>) -> Result<(), wasmi::errors::LinkerError> {
    linker
        .func_wrap(
            MODULE,
            "request_start",
            |mut here: Here<'_>, destination: u32, program: u32, handler: u32| {
                here.pay(CALL_COST, 0)?;
                let draft = Draft { destination, program, handler, parts: Vec::new(), bytes: 0 };
                here.call()?.draft = Some(draft);
                Ok(answer::OK)
            },
        )?
        .func_wrap(MODULE, "request_append", |mut here: Here<'_>, from: u32, length: u32| {
            here.pay(DMA_COST, length)?;
            let (memory, call) = here.parts()?;
            let bytes = slice(memory, from, length)?;
            Ok(call.append(length, || Part::Local(bytes.to_vec())))
        })?
        .func_wrap(MODULE, "request_append_nvm", |mut here: Here<'_>, address: u64, length: u32| {
            here.pay(DMA_COST, 0)?;
            let Some(range) = range(address, length) else { return Ok(answer::BAD_ARGUMENT) };
            Ok(here.call()?.append(length, || Part::Nvm(range)))
        })?
        .func_wrap(MODULE, "request_finish", |mut here: Here<'_>| {
            here.pay(CALL_COST, 0)?;
            let call = here.call()?;
            let Some(draft) = call.draft.take() else { return Ok(answer::BAD_ARGUMENT) };
            match call.tickets.len() < TICKETS {
                true => here.ask(Op::Finish(draft)),
                false => Ok(answer::NO_ROOM),
            }
        })?
        .func_wrap(MODULE, "wait", |mut here: Here<'_>, ticket: i32| {
            here.pay(CALL_COST, 0)?;
            let call = here.call()?;
            match usize::try_from(ticket).ok().and_then(|index| Some((index, *call.tickets.get(index)?))) {
                None => Ok(answer::BAD_ARGUMENT),
                Some((_, Some(status))) => Ok(status),
                Some((index, None)) => here.ask(Op::Wait(index)),
            }
        })?
        .func_wrap(
            MODULE,
            "call",
            |mut here: Here<'_>,
             program: u32,
             handler: u32,
             from: u32,
             length: u32,
             at: u32,
             bytes: u32,
             length_at: u32| {
                here.pay(DMA_COST, length)?;
                let (memory, _) = here.parts()?;
                let out = room(memory, at, bytes, length_at)?;
                let body = slice(memory, from, length)?;
                if body.len() > BODY_BYTES {
                    return Ok(answer::NO_ROOM);
                }
                let body = body.to_vec();
                here.ask(Op::Call { program: ProgramId(program), handler, body, out })
            },
        )?;
    Ok(())
}

fn nvm_functions(linker: &mut Linker<Context>) -> Result<(), wasmi::errors::LinkerError> {
    linker
        .func_wrap(MODULE, "nvm_read", |mut here: Here<'_>, to: u32, address: u64, length: u32| {
            here.pay(DMA_COST, 0)?;
            let (memory, _) = here.parts()?;
            slice(memory, to, length)?;
            let Some(range) = range(address, length) else { return Ok(answer::BAD_ARGUMENT) };
            here.ask(Op::NvmRead { to, range })
        })?
        .func_wrap(MODULE, "nvm_write", |mut here: Here<'_>, address: u64, from: u32, length: u32| {
            here.pay(DMA_COST, length)?;
            let (memory, _) = here.parts()?;
            let bytes = slice(memory, from, length)?;
            // no longer range is local, so nothing longer is copied
            let Some(range) = range(address, length).filter(|_| u64::from(length) <= STRIPE_BYTES) else {
                return Ok(answer::BAD_ARGUMENT);
            };
            let bytes = bytes.to_vec();
            here.ask(Op::NvmWrite { range, bytes })
        })?
        .func_wrap(MODULE, "nvm_copy", |mut here: Here<'_>, to: u64, from: u64, length: u32| {
            here.pay(2 * DMA_COST, 0)?;
            match (range(to, length), range(from, length)) {
                (Some(to), Some(from)) => here.ask(Op::NvmCopy { to, from }),
                _ => Ok(answer::BAD_ARGUMENT),
            }
        })?
        .func_wrap(MODULE, "nvm_commit", |mut here: Here<'_>, how: u32| {
            here.pay(CALL_COST, 0)?;
            here.call()?;
            match How::from_number(how) {
                Some(how) => here.ask(Op::Commit(how)),
                None => Ok(answer::BAD_ARGUMENT),
            }
        })?
        .func_wrap(MODULE, "nvm_discard", |mut here: Here<'_>| {
            here.pay(CALL_COST, 0)?;
            here.call()?.stage.discard();
            Ok(())
        })?
        .func_wrap(MODULE, "nvm_flush", |mut here: Here<'_>| {
            here.pay(CALL_COST, 0)?;
            here.call()?;
            here.ask(Op::Flush)
        })?
        .func_wrap(MODULE, "nvm_check", |mut here: Here<'_>, address: u64, length: u32, bits: u32| {
            here.pay(CALL_COST, 0)?;
            here.call()?;
            match range(address, length) {
                Some(range) => here.ask(Op::Check { range, bits }),
                None => Ok(answer::BAD_ARGUMENT),
            }
        })?
        .func_wrap(MODULE, "region", |mut here: Here<'_>, index: u32| {
            here.pay(CALL_COST, 0)?;
            let place = here.data().place;
            let row_bytes = STRIPE_BYTES * u64::from(place.processors);
            Ok(match place.region {
                Some((first, stripes)) if index < stripes => first + u64::from(index) * row_bytes,
                _ => 0,
            })
        })?;
    Ok(())
}

fn other_functions(linker: &mut Linker<Context>) -> Result<(), wasmi::errors::LinkerError> {
    linker
        .func_wrap(
            MODULE,
            "kv_get",
            |mut here: Here<'_>, namespace: u32, key: u32, key_bytes: u32, at: u32, bytes: u32| {
                here.pay(DMA_COST, 0)?;
                let (memory, _) = here.parts()?;
                let to = room(memory, at, bytes, 0)?;
                let key = slice(memory, key, key_bytes)?.to_vec();
                here.ask(Op::KvGet { namespace, key, to })
            },
        )?
        .func_wrap(
            MODULE,
            "kv_next",
            |mut here: Here<'_>, namespace: u32, key: u32, key_bytes: u32, at: u32| {
                here.pay(DMA_COST, 0)?;
                let (memory, _) = here.parts()?;
                let to = room(memory, at, KEY_ROOM, 0)?;
                let key = slice(memory, key, key_bytes)?.to_vec();
                here.ask(Op::KvNext { namespace, key, to })
            },
        )?
        .func_wrap(MODULE, "processor", |here: Here<'_>| here.data().place.spu.0)?
        .func_wrap(MODULE, "processors", |here: Here<'_>| here.data().place.processors)?
        .func_wrap(MODULE, "print", |mut here: Here<'_>, from: u32, length: u32| {
            here.pay(DMA_COST, length)?;
            let (memory, context) = here.memory()?;
            let text = slice(memory, from, length)?;
            let surplus = (context.serial.len() + text.len()).saturating_sub(SERIAL_BYTES);
            context.serial.drain(..surplus.min(context.serial.len()));
            context.serial.extend(&text[text.len().saturating_sub(SERIAL_BYTES)..]);
            Ok(())
        })?
        .func_wrap(MODULE, "count", |mut here: Here<'_>, counter: u32, by: u32| {
            here.pay(CALL_COST, 0)?;
            if let Some(counter) = here.data_mut().counters.get_mut(counter as usize) {
                *counter += u64::from(by);
            }
            Ok(())
        })?;
    Ok(())
}

/// Room for a key in `kv_next`: the longest that the drive has.
const KEY_ROOM: u32 = 16;

impl Activation {
    fn next_bytes(&mut self, length: u32) -> Option<&[u8]> {
        let end = self.received.checked_add(length as usize)?;
        let bytes = self.message.body.get(self.received..end)?;
        self.received = end;
        Some(bytes)
    }

    fn append(&mut self, length: u32, part: impl FnOnce() -> Part) -> i32 {
        let Some(draft) = &mut self.draft else { return answer::BAD_ARGUMENT };
        let bytes = draft.bytes.saturating_add(length as usize);
        if bytes > BODY_BYTES || draft.parts.len() >= TICKETS {
            return answer::NO_ROOM;
        }
        draft.bytes = bytes;
        draft.parts.push(part());
        answer::OK
    }
}

/// What functions need of their caller.
trait Calling {
    /// Counts instructions, and the time that bytes take through local memory.
    fn pay(&mut self, instructions: u64, bytes: u32) -> Result<(), Error>;
    fn memory(&mut self) -> Result<(&mut [u8], &mut Context), Error>;
    fn parts(&mut self) -> Result<(&mut [u8], &mut Activation), Error>;
    fn call(&mut self) -> Result<&mut Activation, Error>;
    /// Stops the handler until the system has done this.
    fn ask(&mut self, op: Op) -> Result<i32, Error>;
}

impl Calling for Here<'_> {
    fn pay(&mut self, instructions: u64, bytes: u32) -> Result<(), Error> {
        // longer transfers are refused or fault
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

fn range(address: u64, length: u32) -> Option<Range<u64>> {
    Some(address..address.checked_add(length.into())?)
}

fn slice(memory: &[u8], at: u32, length: u32) -> Result<&[u8], Error> {
    memory.get(at as usize..at as usize + length as usize).ok_or_else(|| TrapCode::MemoryOutOfBounds.into())
}

fn slice_mut(memory: &mut [u8], at: u32, length: u32) -> Result<&mut [u8], Error> {
    memory
        .get_mut(at as usize..at as usize + length as usize)
        .ok_or_else(|| TrapCode::MemoryOutOfBounds.into())
}

fn room(memory: &[u8], at: u32, bytes: u32, length_at: u32) -> Result<Room, Error> {
    slice(memory, at, bytes)?;
    if length_at != 0 {
        slice(memory, length_at, 4)?;
    }
    Ok(Room { at, bytes, length_at })
}
