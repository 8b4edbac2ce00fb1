//! See `hostile::fuzz`.

#![no_main]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../crates/hosts/spu/tests/it/hostile/mod.rs"]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::fuzz(bytes));
