//! Functions that send requests, and call programs on the same processor.

use wasmi::{Error, Linker};

use super::calling::{CALL_COST, Calling, Context, DMA_COST, Here, MODULE, out_buffer, range, slice};
use crate::activation::{Activation, Draft, Op, Part, TICKETS};
use crate::answer;
use crate::message::BODY_BYTES;
use crate::names::ProgramId;

/// Links these functions.
pub(super) fn link(linker: &mut Linker<Context>) -> Result<(), wasmi::errors::LinkerError> {
    linker
        .func_wrap(MODULE, "request_start", request_start)?
        .func_wrap(MODULE, "request_append", request_append)?
        .func_wrap(MODULE, "request_append_nvm", request_append_nvm)?
        .func_wrap(MODULE, "request_finish", request_finish)?
        .func_wrap(MODULE, "wait", wait)?
        .func_wrap(
            MODULE,
            "call",
            |here: Here<'_>, program, handler, from, length, at, bytes, length_at| {
                call(here, (ProgramId(program), handler), (from, length), (at, bytes, length_at))
            },
        )?;
    Ok(())
}

fn request_start(mut here: Here<'_>, destination: u32, program: u32, handler: u32) -> Result<i32, Error> {
    here.pay(CALL_COST, 0)?;
    let draft = Draft { destination, program, handler, parts: Vec::new(), bytes: 0 };
    here.call()?.draft = Some(draft);
    Ok(answer::OK)
}

fn request_append(mut here: Here<'_>, from: u32, length: u32) -> Result<i32, Error> {
    here.pay(DMA_COST, length)?;
    let (memory, call) = here.parts()?;
    let bytes = slice(memory, from, length)?;
    Ok(call.append(length, || Part::Local(bytes.to_vec())))
}

fn request_append_nvm(mut here: Here<'_>, address: u64, length: u32) -> Result<i32, Error> {
    here.pay(DMA_COST, 0)?;
    let Some(range) = range(address, length) else { return Ok(answer::BAD_ARGUMENT) };
    Ok(here.call()?.append(length, || Part::Nvm(range)))
}

fn request_finish(mut here: Here<'_>) -> Result<i32, Error> {
    here.pay(CALL_COST, 0)?;
    let call = here.call()?;
    let Some(draft) = call.draft.take() else { return Ok(answer::BAD_ARGUMENT) };
    match call.tickets.len() < TICKETS {
        true => here.ask(Op::Finish(draft)),
        false => Ok(answer::NO_ROOM),
    }
}

fn wait(mut here: Here<'_>, ticket: i32) -> Result<i32, Error> {
    here.pay(CALL_COST, 0)?;
    let call = here.call()?;
    match usize::try_from(ticket).ok().and_then(|index| Some((index, *call.tickets.get(index)?))) {
        None => Ok(answer::BAD_ARGUMENT),
        Some((_, Some(status))) => Ok(status),
        Some((index, None)) => here.ask(Op::Wait(index)),
    }
}

/// Calls a handler with the bytes at an address in memory; its reply goes to another address, and the reply's length to a third.
fn call(
    mut here: Here<'_>,
    (program, handler): (ProgramId, u32),
    (from, length): (u32, u32),
    (at, bytes, length_at): (u32, u32, u32),
) -> Result<i32, Error> {
    here.pay(DMA_COST, length)?;
    let (memory, _) = here.parts()?;
    let out = out_buffer(memory, at, bytes, length_at)?;
    let body = slice(memory, from, length)?;
    if body.len() > BODY_BYTES {
        return Ok(answer::NO_ROOM);
    }
    let body = body.to_vec();
    here.ask(Op::Call { program, handler, body, out })
}

impl Activation {
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
