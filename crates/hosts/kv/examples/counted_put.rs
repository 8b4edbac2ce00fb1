//! One record, put by a transaction of its own, for counting the files that it executes: `cargo build --profile profiling -p
//! tantalum-kv --example counted_put`, then `valgrind --tool=callgrind --dump-line=yes --toggle-collect='*one_put*'
//! target/profiling/examples/counted_put`.

use tantalum::{Device, Profile};
use tantalum_kv::{Namespace, Options, Store};

/// More than fit in a page.
const RECORDS: u32 = 1000;

#[inline(never)]
fn one_put(store: &Store, records: Namespace) {
    let mut transaction = store.begin().unwrap();
    transaction.put(records, 5_u32.to_be_bytes(), [7; 100]).unwrap();
    transaction.commit().unwrap();
}

fn main() {
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("femu-2021").unwrap() };
    let store = Store::over(Device::in_memory(&profile).unwrap(), Options::default()).unwrap();
    let records = store.hashed_namespace("records").unwrap();
    for key in 0..RECORDS {
        store.transact(|transaction| transaction.put(records, key.to_be_bytes(), [1; 100])).unwrap();
    }
    one_put(&store, records);
}
