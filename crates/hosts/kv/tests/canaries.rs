//! Guards of the store, taken out one by one: what threads see, or what is left after a cut, must show it. `tantalum crash
//! kv` has those that power losses show (`crates/tools/torture/tests/canaries_kv.rs`).
//!
//! `cargo test --profile canary -p tantalum-kv --features canaries --test canaries -- --nocapture`

#[path = "concurrent/mod.rs"]
mod concurrent;

#[path = "changed_positions/mod.rs"]
mod changed_positions;

use concurrent::plan::Plan;
use concurrent::shrink::failure;
use tantalum_canaries::take_out_everywhere;
use tantalum_kv::canaries;

/// Seeds within which a missing guard is noticed.
const MOST_SEEDS: u64 = 40;

#[test]
fn each_missing_guard_is_noticed() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut unnoticed = Vec::new();
    for guard in [
        &canaries::RangeNotLocked,
        &canaries::RangeOverPoints,
        &canaries::NotReadAgain,
        &canaries::PartsSeen,
        &canaries::VersionsForgotten,
        &canaries::NodesApart,
    ] {
        let out = take_out_everywhere(guard);
        let noticed = (0..MOST_SEEDS).find_map(|seed| Some((seed, failure(&Plan::draw(seed))?)));
        drop(out);
        match noticed {
            Some((seed, wrong)) => {
                let wrong: String = wrong.chars().take(150).collect();
                println!("{guard:?}: {} seeds, {wrong}", seed + 1);
            }
            None => unnoticed.push(guard),
        }
    }
    let out = take_out_everywhere(&canaries::OtherKeysDeleted);
    let kept = changed_positions::refuses_other_keys();
    drop(out);
    if kept {
        unnoticed.push(&canaries::OtherKeysDeleted);
    }
    let _ = std::panic::take_hook();
    assert!(changed_positions::refuses_other_keys());
    assert!(unnoticed.is_empty(), "{unnoticed:?} are taken out, and {MOST_SEEDS} seeds did not notice");
    assert_eq!(failure(&Plan::draw(0)), None, "all are back");
}
