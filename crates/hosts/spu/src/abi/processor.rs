//! Functions on the processor: its number, a serial port, counters.

use wasmi::{Error, Linker};

use super::calling::{CALL_COST, Calling, Context, DMA_COST, Here, MODULE, slice};

/// The number of bytes that a program's serial port keeps.
const SERIAL_BYTES: usize = 4096;

/// Links these functions.
pub(super) fn link(linker: &mut Linker<Context>) -> Result<(), wasmi::errors::LinkerError> {
    linker
        .func_wrap(MODULE, "processor", processor)?
        .func_wrap(MODULE, "processors", processors)?
        .func_wrap(MODULE, "print", print)?
        .func_wrap(MODULE, "count", count)?;
    Ok(())
}

fn processor(here: Here<'_>) -> u32 {
    here.data().place.spu.0
}

fn processors(here: Here<'_>) -> u32 {
    here.data().place.processors
}

fn print(mut here: Here<'_>, from: u32, length: u32) -> Result<(), Error> {
    here.pay(DMA_COST, length)?;
    let (memory, context) = here.memory()?;
    let text = slice(memory, from, length)?;
    let surplus = (context.serial.len() + text.len()).saturating_sub(SERIAL_BYTES);
    context.serial.drain(..surplus.min(context.serial.len()));
    context.serial.extend(&text[text.len().saturating_sub(SERIAL_BYTES)..]);
    Ok(())
}

fn count(mut here: Here<'_>, counter: u32, by: u32) -> Result<(), Error> {
    here.pay(CALL_COST, 0)?;
    if let Some(counter) = here.data_mut().counters.get_mut(counter as usize) {
        *counter += u64::from(by);
    }
    Ok(())
}
