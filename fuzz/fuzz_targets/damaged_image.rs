//! Any bytes are mutations of an image; whatever they do to it, it is refused or reads right.
//!
//! Ten bytes are one mutation, at most eight are taken: its kind, a bit, where, and how much. The first byte of all
//! chooses the image: of a drive that was shut down, or of one whose process was killed.

#![no_main]

#[path = "../../crates/ssd/device/tests/it/damage/mod.rs"]
mod damage;

use std::sync::LazyLock;

use damage::{End, Mutation, Specimen};
use libfuzzer_sys::fuzz_target;

const MUTATION_BYTES: usize = 10;
const MOST: usize = 8;

static SPECIMENS: LazyLock<[Specimen; 2]> = LazyLock::new(|| {
    // The folder is left to the system: a fuzzer is stopped, it does not end.
    let folder = tempfile::tempdir().expect("there is a place for temporary files").keep();
    [End::ShutDown, End::Killed].map(|end| Specimen::new(&folder, end))
});

fn mutation(specimen: &Specimen, bytes: &[u8; MUTATION_BYTES]) -> Mutation {
    let number = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
    let at = number(2) % specimen.bytes();
    match bytes[0] % 3 {
        0 => Mutation::Flip { at, bit: bytes[1] % 8 },
        1 => Mutation::Truncate { bytes: at },
        _ => Mutation::Splice { at, bytes: (1 + number(6) % 65536).min(specimen.bytes() - at) },
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((end, bytes)) = bytes.split_first() else { return };
    let specimen = &SPECIMENS[usize::from(end % 2)];
    let (mutations, _) = bytes.as_chunks::<MUTATION_BYTES>();
    let mutations: Vec<Mutation> =
        mutations.iter().take(MOST).map(|bytes| mutation(specimen, bytes)).collect();
    specimen.try_out(&mutations);
});
