//! Functions that read key-value namespaces.

use wasmi::{Error, Linker};

use super::calling::{Calling, Context, DMA_COST, Here, MODULE, out_buffer, slice};
use crate::activation::{Op, OutBuffer};

/// The size of the buffer for a key in `kv_next`: the longest key of the drive.
const KEY_ROOM: u32 = 16;

/// Links these functions.
pub(super) fn link(linker: &mut Linker<Context>) -> Result<(), wasmi::errors::LinkerError> {
    linker
        .func_wrap(MODULE, "kv_get", kv_get)?
        .func_wrap(MODULE, "kv_next", kv_next)?
        .func_wrap(MODULE, "kv_scan", kv_scan)?;
    Ok(())
}

/// The key that a program names, and its buffer for the result.
fn key_and_buffer(
    here: &mut Here<'_>,
    key: (u32, u32),
    at: u32,
    bytes: u32,
) -> Result<(Vec<u8>, OutBuffer), Error> {
    here.pay(DMA_COST, 0)?;
    let (memory, _) = here.parts()?;
    let to = out_buffer(memory, at, bytes, 0)?;
    Ok((slice(memory, key.0, key.1)?.to_vec(), to))
}

fn kv_get(
    mut here: Here<'_>,
    namespace: u32,
    key: u32,
    key_bytes: u32,
    at: u32,
    bytes: u32,
) -> Result<i32, Error> {
    let (key, to) = key_and_buffer(&mut here, (key, key_bytes), at, bytes)?;
    here.ask(Op::KvGet { namespace, key, to })
}

fn kv_next(mut here: Here<'_>, namespace: u32, key: u32, key_bytes: u32, at: u32) -> Result<i32, Error> {
    let (key, to) = key_and_buffer(&mut here, (key, key_bytes), at, KEY_ROOM)?;
    here.ask(Op::KvNext { namespace, key, to })
}

fn kv_scan(
    mut here: Here<'_>,
    namespace: u32,
    key: u32,
    key_bytes: u32,
    at: u32,
    bytes: u32,
    most: u32,
) -> Result<i32, Error> {
    let (key, to) = key_and_buffer(&mut here, (key, key_bytes), at, bytes)?;
    here.ask(Op::KvScan { namespace, key, to, most })
}
