//! Functions on a handler's current request: receiving and answering it.

use wasmi::{Error, Linker};

use super::calling::{CALL_COST, Calling, Context, DMA_COST, Here, MODULE, range, slice, slice_mut};
use crate::activation::{Activation, Op};
use crate::answer;
use crate::message::BODY_BYTES;

/// Links these functions.
pub(super) fn link(linker: &mut Linker<Context>) -> Result<(), wasmi::errors::LinkerError> {
    linker
        .func_wrap(MODULE, "receive", receive)?
        .func_wrap(MODULE, "receive_nvm", receive_nvm)?
        .func_wrap(MODULE, "remaining", remaining)?
        .func_wrap(MODULE, "respond", respond)?
        .func_wrap(MODULE, "reply", reply)?
        .func_wrap(MODULE, "origin", origin)?
        .func_wrap(MODULE, "caller", caller)?;
    Ok(())
}

fn receive(mut here: Here<'_>, to: u32, length: u32) -> Result<i32, Error> {
    here.pay(DMA_COST, length)?;
    let (memory, call) = here.parts()?;
    let target = slice_mut(memory, to, length)?;
    let Some(body) = call.next_bytes(length) else { return Ok(answer::SHORT) };
    target.copy_from_slice(body);
    Ok(answer::OK)
}

fn receive_nvm(mut here: Here<'_>, address: u64, length: u32) -> Result<i32, Error> {
    here.pay(DMA_COST, 0)?;
    let Some(range) = range(address, length) else { return Ok(answer::BAD_ARGUMENT) };
    let Some(body) = here.call()?.next_bytes(length) else { return Ok(answer::SHORT) };
    let bytes = body.to_vec();
    here.ask(Op::NvmWrite { range, bytes })
}

fn remaining(mut here: Here<'_>) -> Result<u32, Error> {
    here.pay(CALL_COST, 0)?;
    let call = here.call()?;
    Ok((call.message.body.len() - call.received) as u32)
}

fn respond(mut here: Here<'_>, status: i32) -> Result<i32, Error> {
    here.pay(CALL_COST, 0)?;
    match here.call()?.is_answered {
        true => Ok(answer::NOT_ALLOWED),
        false => here.ask(Op::Respond(status)),
    }
}

fn reply(mut here: Here<'_>, from: u32, length: u32) -> Result<i32, Error> {
    here.pay(DMA_COST, length)?;
    let (memory, call) = here.parts()?;
    let bytes = slice(memory, from, length)?;
    if call.reply.len() + bytes.len() > BODY_BYTES {
        return Ok(answer::NO_ROOM);
    }
    call.reply.extend_from_slice(bytes);
    Ok(answer::OK)
}

fn origin(mut here: Here<'_>) -> Result<u32, Error> {
    here.pay(CALL_COST, 0)?;
    Ok(here.call()?.message.origin.endpoint.number())
}

fn caller(mut here: Here<'_>) -> Result<u32, Error> {
    here.pay(CALL_COST, 0)?;
    Ok(here.call()?.message.caller.map_or(0, |program| program.0))
}

impl Activation {
    fn next_bytes(&mut self, length: u32) -> Option<&[u8]> {
        let end = self.received.checked_add(length as usize)?;
        let bytes = self.message.body.get(self.received..end)?;
        self.received = end;
        Some(bytes)
    }
}
