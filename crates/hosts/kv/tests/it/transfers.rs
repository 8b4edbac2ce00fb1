//! Threads move money between accounts while others add all accounts up: the sum is always the same, whether accounts
//! are records of a hashed or of an ordered namespace. `SEED=17` runs one seed.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Profile};
use tantalum_kv::{Error, Namespace, Options, Store, Transaction};

/// Accounts in each of the two namespaces: few, so that transactions meet.
const ACCOUNTS: u32 = 12;

const FIRST_BALANCE: u64 = 1000;

/// A bank.
struct Bank {
    store: Store,
    namespaces: [Namespace; 2],
}

impl Bank {
    fn new(records_per_lock: u32) -> Bank {
        let mut profile = Profile::load("tlc-nvme-plp").unwrap();
        profile.capacity_bytes = 128 << 20;
        profile.over_provisioning_percent = 40.0;
        let options = Options::default().records_per_lock(records_per_lock);
        let store = Store::over(Device::in_memory(&profile).unwrap(), options).unwrap();
        let namespaces = [store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap()];
        let fill = |tx: &mut Transaction| {
            accounts().try_for_each(|account| {
                tx.put(namespaces[account.0], account.1.to_be_bytes(), FIRST_BALANCE.to_le_bytes())
            })
        };
        store.transact(fill).unwrap();
        Bank { store, namespaces }
    }

    fn balance(&self, tx: &mut Transaction, (kind, number): (usize, u32)) -> Result<u64, Error> {
        let value = tx.read(self.namespaces[kind], number.to_be_bytes())?.expect("each account exists");
        Ok(u64::from_le_bytes(value[..].try_into().unwrap()))
    }

    /// Moves money from one account to another; half of the transactions lock what they read only when they change it.
    fn transfer(&self, random: &mut Xoshiro256PlusPlus) -> Result<(), Error> {
        let mut draw = || (random.random_range(0..2), random.random_range(0..ACCOUNTS));
        let (from, to) = (draw(), draw());
        let (upgrades, amount) = (random.random::<bool>(), random.random_range(0..50));
        if from == to {
            return Ok(());
        }
        self.store.transact(|tx| {
            for account in [from, to].into_iter().filter(|_| !upgrades) {
                tx.read_for_update(self.namespaces[account.0], account.1.to_be_bytes())?;
            }
            let (has, gets) = (self.balance(tx, from)?, self.balance(tx, to)?);
            let moved = has.min(amount);
            for ((kind, number), balance) in [(from, has - moved), (to, gets + moved)] {
                tx.put(self.namespaces[kind], number.to_be_bytes(), balance.to_le_bytes())?;
            }
            Ok(())
        })
    }

    fn sum(&self) -> Result<u64, Error> {
        self.store.transact(|tx| accounts().map(|account| self.balance(tx, account)).sum())
    }
}

fn accounts() -> impl Iterator<Item = (usize, u32)> {
    (0..2).flat_map(|kind| (0..ACCOUNTS).map(move |number| (kind, number)))
}

#[test]
fn what_readers_add_up_stays_the_same_while_others_move_money() {
    let seed = std::env::var("SEED").map_or(17, |text| text.parse().unwrap());
    let all = 2 * u64::from(ACCOUNTS) * FIRST_BALANCE;
    for records_per_lock in [1, 3] {
        let bank = Bank::new(records_per_lock);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let bank = &bank;
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed + thread);
                scope.spawn(move || (0..3000).for_each(|_| bank.transfer(&mut random).unwrap()));
            }
            for _ in 0..2 {
                scope.spawn(|| (0..1000).for_each(|_| assert_eq!(bank.sum().unwrap(), all, "seed {seed}")));
            }
        });
        assert_eq!(bank.sum().unwrap(), all, "seed {seed}");
        let counters = bank.store.counters();
        assert!(counters.conflicts > 0 && counters.deadlocks > 0, "{counters:?}");
    }
}
