//! Images with flipped bits, without their end, and with pieces of an older copy: an error, or a right drive.
//!
//! A failure names its seed and number; `SEED=n cargo test --release -p tantalum --test it damaged_images` runs only that
//! seed, and `MUTATIONS=n` that many of each kind.

use crate::damage;

use damage::{End, Mutation, Specimen, Verdict};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::check::Remedy;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// How often each verdict came.
#[derive(Default, Debug)]
struct Seen {
    refused: u32,
    right: u32,
    unreadable: u32,
}

impl Seen {
    fn note(&mut self, verdict: Verdict) {
        *match verdict {
            Verdict::Refused => &mut self.refused,
            Verdict::Right => &mut self.right,
            Verdict::Unreadable(_) => &mut self.unreadable,
        } += 1;
    }
}

/// Tries `count` mutations on images of drives that were shut down, and of drives that were killed.
fn try_many(count: u64, draw: impl Fn(&Specimen, &mut Xoshiro256PlusPlus) -> Vec<Mutation>) -> Seen {
    let (seed, count) = (setting("SEED", 1), setting("MUTATIONS", count));
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    for end in [End::ShutDown, End::Killed] {
        let specimen = Specimen::new(folder.path(), end);
        assert_eq!(specimen.try_out(&[]), Verdict::Right);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for number in 0..count {
            let mutations = draw(&specimen, &mut rng);
            println!("seed {seed}, {end:?}, number {number}: {mutations:?}");
            seen.note(specimen.try_out(&mutations));
        }
        assert_eq!(specimen.try_out(&[]), Verdict::Right, "the image is as it was");
    }
    println!("{seen:?}");
    seen
}

/// A byte near which something is stored.
fn used_byte(specimen: &Specimen, rng: &mut Xoshiro256PlusPlus) -> u64 {
    loop {
        let at = rng.random_range(0..specimen.bytes());
        if specimen.is_used(at) {
            return at;
        }
    }
}

/// A byte of what is not units' data: half of all draws, as most of an image is data.
fn any_byte(specimen: &Specimen, rng: &mut Xoshiro256PlusPlus) -> u64 {
    let at = used_byte(specimen, rng);
    if rng.random_ratio(1, 2) { at } else { at % specimen.records_end() }
}

#[test]
fn flipped_bits_are_never_silent() {
    let seen = try_many(600, |specimen, rng| {
        let flips = if rng.random_ratio(3, 4) { 1 } else { rng.random_range(2..6) };
        (0..flips)
            .map(|_| Mutation::Flip { at: any_byte(specimen, rng), bit: rng.random_range(0..8) })
            .collect()
    });
    assert!(seen.refused > 0 && seen.right > 0 && seen.unreadable > 0, "{seen:?}");
}

#[test]
fn a_missing_end_is_refused_at_any_length() {
    let seen = try_many(150, |specimen, rng| {
        vec![Mutation::Truncate { bytes: rng.random_range(0..specimen.bytes()) }]
    });
    assert_eq!((seen.right, seen.unreadable), (0, 0));
}

#[test]
fn pieces_of_an_older_copy_are_never_taken_for_the_truth() {
    let seen = try_many(600, |specimen, rng| {
        // whole blocks of the host's disk, single sectors (here a page record is one), and anything
        let unit = [4096, 512, 512, 1][rng.random_range(0..4)];
        let at = any_byte(specimen, rng) / unit * unit;
        let most = if rng.random_ratio(1, 2) { 4 } else { 65536 / unit };
        let bytes = (unit * rng.random_range(1..=most)).min(specimen.bytes() - at);
        vec![Mutation::Splice { at, bytes }]
    });
    assert!(seen.refused > 0 && seen.right > 0 && seen.unreadable > 0, "{seen:?}");
}

/// Each record alone is put back to its older version, or to the zeros before it was written: its own checksum is
/// right, and only the tally detects it.
#[test]
fn each_record_put_back_by_itself_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    for end in [End::ShutDown, End::Killed] {
        let specimen = Specimen::new(folder.path(), end);
        let (records, bytes) = specimen.page_records();
        for at in records.step_by(bytes as usize) {
            if specimen.differs_from_older(at, bytes) {
                seen.note(specimen.try_out(&[Mutation::Splice { at, bytes }]));
            }
        }
    }
    println!("{seen:?}");
    // those that stay right were erased in both copies
    assert!(seen.refused > 10 * seen.right && seen.unreadable == 0, "{seen:?}");
}

/// A page whose record is damaged is repaired to one that cannot be read, or the image is beyond repair; what then
/// reads, reads right.
#[test]
fn a_repair_loses_what_is_damaged_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(setting("SEED", 3));
    let (mut repaired, mut refused) = (0, 0);
    for end in [End::ShutDown, End::Killed] {
        let specimen = Specimen::new(folder.path(), end);
        for number in 0..setting("MUTATIONS", 60) {
            let at = used_byte(&specimen, &mut rng) % specimen.records_end();
            let flip = Mutation::Flip { at, bit: rng.random_range(0..8) };
            println!("{end:?}, number {number}: {flip:?}");
            let Some(repair) = specimen.repair(folder.path(), &flip) else { continue };
            if repair.before.is_beyond_repair() {
                assert!(repair.done.is_empty());
                refused += 1;
            } else {
                assert!(repair.after.findings.iter().all(|finding| finding.remedy == Remedy::Rewrite));
                repaired += u32::from(!repair.before.findings.is_empty());
            }
        }
    }
    println!("{repaired} repaired, {refused} refused");
    assert!(repaired > 10 && refused > 0, "{repaired} repaired, {refused} refused");
}
