//! Transfers under all schemes: balances agree with the history, and the history has what was acknowledged, also over power cuts.
//! `STORE_SEEDS=200` runs more seeds, `STORE_SEED=17` one.

use tantalum::{PowerLoss, Profile};
use tantalum_image::SplitMix64;
use tantalum_store::{Scheme, Size, Store, StoreError};

const CLIENTS: usize = 4;

/// Few pages in the pool, so that pages with changes that are not committed are written; a short log, so that it wraps.
const SIZE: Size = Size {
    branches: 3,
    accounts_per_branch: 400,
    transfers_per_client: 2000,
    frames: 20,
    log_bytes: 64 << 10,
};

fn profile(name: &str) -> Profile {
    let mut profile = Profile { capacity_bytes: 64 << 20, ..Profile::load(name).unwrap() };
    if profile.power.dump_bytes > 0 {
        profile.cache.bytes = 1 << 20;
        profile.power.dump_bytes = 2 << 20;
    }
    profile
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    match (number("STORE_SEED"), number("STORE_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(default),
    }
}

#[test]
fn balances_agree_with_the_history_and_runs_repeat_exactly() {
    for name in ["willow", "tlc-nvme-plp"] {
        for scheme in Scheme::ALL {
            let run = || {
                let mut store = Store::create(&profile(name), scheme, SIZE, CLIENTS).unwrap();
                let ran = store.run(300, 20, 1).unwrap();
                let acknowledged = store.lines().to_vec();
                store.recover().unwrap();
                assert_eq!(store.lines(), acknowledged, "{name}, {scheme:?}");
                ran
            };
            let (ran, again) = (run(), run());
            assert_eq!((ran.elapsed_ns, &ran.transfers), (again.elapsed_ns, &again.transfers));
            let transfers: u64 = ran.transfers.iter().sum();
            assert!((850..1100).contains(&transfers), "{transfers} of 1200, without a fifth");
            println!("{name}, {scheme:?}: {ran:?}");
            if scheme == Scheme::Mars {
                assert_eq!((ran.pages_written, ran.log_writes), (0, 0));
            } else {
                assert!(ran.checkpoints > 5 && ran.pages_written > 100, "{ran:?}");
            }
        }
    }
}

#[test]
fn commits_that_come_while_the_log_is_written_share_the_next_write() {
    let size = Size { branches: 64, frames: 1000, log_bytes: 1 << 20, ..SIZE };
    let mut store = Store::create(&profile("willow"), Scheme::AriesBase, size, 16).unwrap();
    let ran = store.run(100, 0, 1).unwrap();
    assert!(ran.log_writes * 2 < ran.transfers.iter().sum(), "{ran:?}");
}

/// Power fails at a random operation, also during recovery.
fn torture(seed: u64) -> u64 {
    let mut random = SplitMix64(seed);
    let name = ["willow", "tlc-nvme-plp"][random.below(2) as usize];
    let scheme = Scheme::ALL[random.below(3) as usize];
    println!("seed {seed}: {name}, {scheme:?}");
    let mut store = Store::create(&profile(name), scheme, SIZE, CLIENTS).unwrap();
    let mut again = 0;
    for round in 0..6 {
        let most = if name == "willow" { 12_000 } else { 60 };
        store.cut_after(Some(1 + random.below(most)));
        let ran = store.run(150, 15, seed * 10 + round).unwrap();
        if !ran.lost_power {
            store.cut_after(None);
        }
        let acknowledged = store.lines().to_vec();
        loop {
            if random.below(2) == 0 {
                let operations = if name == "willow" { 1 + random.below(400) } else { 1 + random.below(20) };
                store.cut_after(Some(operations));
            }
            match store.power_on(&mut PowerLoss::seeded(random.next_u64())) {
                Ok(true) => break,
                Ok(false) => again += 1,
                Err(error) => panic!("seed {seed}, round {round}: {error}"),
            }
        }
        store.cut_after(None);
        for (client, (found, acknowledged)) in store.lines().iter().zip(&acknowledged).enumerate() {
            assert!(
                (*acknowledged..=acknowledged + 1).contains(found),
                "seed {seed}, round {round}: client {client} has {found} lines, and {acknowledged} were acknowledged"
            );
        }
    }
    again
}

#[test]
fn acknowledged_transfers_survive_power_cuts_whole_and_others_leave_nothing() {
    let again: u64 = seeds(24).map(torture).sum();
    assert!(again > 0 || std::env::var("STORE_SEED").is_ok(), "power never went in recovery");
}

#[test]
fn drives_that_may_lose_what_they_acknowledged_are_refused() {
    let refused = Store::create(&profile("tlc-nvme"), Scheme::Mars, SIZE, CLIENTS).map(drop);
    assert!(matches!(refused, Err(StoreError::Volatile { .. })), "{refused:?}");
    let crowded = Store::create(&profile("willow"), Scheme::Mars, SIZE, 17).map(drop);
    assert!(matches!(crowded, Err(StoreError::Clients { clients: 17, most: 16 })), "{crowded:?}");
    let large = Size { branches: 3000, ..SIZE };
    let large = Store::create(&profile("willow"), Scheme::Mars, large, CLIENTS).map(drop);
    assert!(matches!(large, Err(StoreError::TooSmall { .. })), "{large:?}");
}
