//! The functions of `tantalum_spu.h`, as the runtime offers them to programs.
//!
//! Invariants: a pointer outside a program's memory is a fault of that program; a function's cost is counted like instructions;
//! anything that others could observe is not done here but passed to the system as an [`Op`](crate::activation::Op).

mod calling;
mod nvm;
mod processor;
mod records;
mod requests;
mod sending;

use wasmi::{Engine, Linker};

use calling::MODULE;

pub use calling::COUNTERS;
pub(crate) use calling::Context;

/// All functions that a program may import.
pub(crate) fn linker(engine: &Engine) -> Linker<Context> {
    let mut linker = Linker::new(engine);
    requests::link(&mut linker)
        .and_then(|()| sending::link(&mut linker))
        .and_then(|()| nvm::link(&mut linker))
        .and_then(|()| records::link(&mut linker))
        .and_then(|()| processor::link(&mut linker))
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
    "kv_scan",
    "processor",
    "processors",
    "print",
    "count",
];

/// Whether a program may import this function.
pub(crate) fn is_known(module: &str, name: &str) -> bool {
    module == MODULE && FUNCTIONS.contains(&name)
}
