//! Functions on non-volatile memory.

use wasmi::{Error, Linker};

use super::calling::{CALL_COST, Calling, Context, DMA_COST, Here, MODULE, range, slice};
use crate::activation::Op;
use crate::answer;
use crate::stage::How;
use crate::stripes::STRIPE_BYTES;

/// Links these functions.
pub(super) fn link(linker: &mut Linker<Context>) -> Result<(), wasmi::errors::LinkerError> {
    linker
        .func_wrap(MODULE, "nvm_read", nvm_read)?
        .func_wrap(MODULE, "nvm_write", nvm_write)?
        .func_wrap(MODULE, "nvm_copy", nvm_copy)?
        .func_wrap(MODULE, "nvm_commit", nvm_commit)?
        .func_wrap(MODULE, "nvm_discard", nvm_discard)?
        .func_wrap(MODULE, "nvm_flush", nvm_flush)?
        .func_wrap(MODULE, "nvm_check", nvm_check)?
        .func_wrap(MODULE, "region", region)?;
    Ok(())
}

fn nvm_read(mut here: Here<'_>, to: u32, address: u64, length: u32) -> Result<i32, Error> {
    here.pay(DMA_COST, 0)?;
    let (memory, _) = here.parts()?;
    slice(memory, to, length)?;
    let Some(range) = range(address, length) else { return Ok(answer::BAD_ARGUMENT) };
    here.ask(Op::NvmRead { to, range })
}

fn nvm_write(mut here: Here<'_>, address: u64, from: u32, length: u32) -> Result<i32, Error> {
    here.pay(DMA_COST, length)?;
    let (memory, _) = here.parts()?;
    let bytes = slice(memory, from, length)?;
    // a longer range is never local, so nothing longer is copied
    let Some(range) = range(address, length).filter(|_| u64::from(length) <= STRIPE_BYTES) else {
        return Ok(answer::BAD_ARGUMENT);
    };
    let bytes = bytes.to_vec();
    here.ask(Op::NvmWrite { range, bytes })
}

fn nvm_copy(mut here: Here<'_>, to: u64, from: u64, length: u32) -> Result<i32, Error> {
    here.pay(2 * DMA_COST, 0)?;
    match (range(to, length), range(from, length)) {
        (Some(to), Some(from)) => here.ask(Op::NvmCopy { to, from }),
        _ => Ok(answer::BAD_ARGUMENT),
    }
}

fn nvm_commit(mut here: Here<'_>, how: u32) -> Result<i32, Error> {
    here.pay(CALL_COST, 0)?;
    here.call()?;
    match How::from_number(how) {
        Some(how) => here.ask(Op::Commit(how)),
        None => Ok(answer::BAD_ARGUMENT),
    }
}

fn nvm_discard(mut here: Here<'_>) -> Result<(), Error> {
    here.pay(CALL_COST, 0)?;
    here.call()?.stage.discard();
    Ok(())
}

fn nvm_flush(mut here: Here<'_>) -> Result<i32, Error> {
    here.pay(CALL_COST, 0)?;
    here.call()?;
    here.ask(Op::Flush)
}

fn nvm_check(mut here: Here<'_>, address: u64, length: u32, bits: u32) -> Result<i32, Error> {
    here.pay(CALL_COST, 0)?;
    here.call()?;
    match range(address, length) {
        Some(range) => here.ask(Op::Check { range, bits }),
        None => Ok(answer::BAD_ARGUMENT),
    }
}

fn region(mut here: Here<'_>, index: u32) -> Result<u64, Error> {
    here.pay(CALL_COST, 0)?;
    let place = here.data().place;
    let row_bytes = STRIPE_BYTES * u64::from(place.processors);
    Ok(match place.region {
        Some((first, stripes)) if index < stripes => first + u64::from(index) * row_bytes,
        _ => 0,
    })
}
