//! See `fuzzed::pdu`.

#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../../crates/fronts/nvme/tests/fuzzed/mod.rs"]
mod fuzzed;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzed::pdu(bytes));
