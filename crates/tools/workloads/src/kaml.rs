//! The transactions of KAML's figures 9 and 10, as accesses to records: TPC-B's AccountUpdate, TPC-C's NewOrder and
//! Payment, and YCSB.
//!
//! Values have 512 bytes, TPC-C's customers and YCSB's records 1,024 (Jin's thesis, sections 3.3.4 and 3.3.5).

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::ycsb::{Draws, Operation, Workload};

const VALUE_BYTES: usize = 512;
const LONG_VALUE_BYTES: usize = 1024;

const TELLERS_PER_BRANCH: u64 = 10;
const DISTRICTS_PER_WAREHOUSE: u64 = 10;

/// The operation on a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read only.
    Read,
    /// Read, and then written.
    Change,
    /// Written without reading it.
    Write,
    /// Inserted.
    Insert,
}

/// One access of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The number of the table, in the order of [`Load::tables`].
    pub table: usize,
    /// The record.
    pub key: u64,
    /// The operation on it.
    pub access: Access,
}

/// A table: this many records of this many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// Records that it is loaded with.
    pub records: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
}

/// A kind of transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// TPC-B's.
    AccountUpdate,
    /// TPC-C's.
    NewOrder,
    /// TPC-C's.
    Payment,
    /// YCSB's. Records have no order, so a scan (E) reads only where it begins.
    Ycsb(Workload),
}

impl Load {
    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Load::AccountUpdate => "TPC-B AccountUpdate".to_owned(),
            Load::NewOrder => "TPC-C NewOrder".to_owned(),
            Load::Payment => "TPC-C Payment".to_owned(),
            Load::Ycsb(workload) => workload.letter().to_string(),
        }
    }

    /// Its tables, `units` large: branches, warehouses or thousands of YCSB's records.
    pub fn tables(self, units: u64) -> Vec<Table> {
        let table = |records| Table { records, value_bytes: VALUE_BYTES };
        let long = |records| Table { records, value_bytes: LONG_VALUE_BYTES };
        let districts = units * DISTRICTS_PER_WAREHOUSE;
        match self {
            // branches, tellers, accounts, history
            Load::AccountUpdate => {
                vec![table(units), table(units * TELLERS_PER_BRANCH), table(units * ACCOUNTS), table(0)]
            }
            // warehouses, districts, customers, history
            Load::Payment => vec![table(units), table(districts), long(districts * CUSTOMERS), table(0)],
            // warehouses, districts, customers, items, stock, orders, new orders, order lines
            Load::NewOrder => vec![
                table(units),
                table(districts),
                long(districts * CUSTOMERS),
                table(ITEMS),
                table(units * ITEMS),
                table(0),
                table(0),
                table(0),
            ],
            Load::Ycsb(_) => vec![long(units * 1000)],
        }
    }
}

/// Accounts of a branch: a hundredth of the standard's.
const ACCOUNTS: u64 = 1000;

/// Customers of a district, and items: a tenth of the standard's.
const CUSTOMERS: u64 = 300;
const ITEMS: u64 = 10_000;

/// Draws transactions of one kind.
pub struct Drawer {
    load: Load,
    units: u64,
    /// Records that were inserted, by any client.
    inserted: u64,
    /// Draws operations of YCSB, if that is the load.
    ycsb: Option<Draws>,
}

impl Drawer {
    /// Transactions on tables that are `units` large.
    pub fn new(load: Load, units: u64) -> Drawer {
        let ycsb = match load {
            Load::Ycsb(workload) => Some(Draws::new(workload, units * 1000)),
            _ => None,
        };
        Drawer { load, units, inserted: 0, ycsb }
    }

    /// The steps of the next transaction.
    pub fn draw(&mut self, random: &mut Xoshiro256PlusPlus) -> Vec<Step> {
        let step = |table, key, access| Step { table, key, access };
        self.inserted += 1;
        let new = self.inserted << 8;
        match self.load {
            Load::AccountUpdate => {
                let teller = random.random_range(0..self.units * TELLERS_PER_BRANCH);
                vec![
                    step(2, random.random_range(0..self.units * ACCOUNTS), Access::Change),
                    step(1, teller, Access::Change),
                    step(0, teller / TELLERS_PER_BRANCH, Access::Change),
                    step(3, new, Access::Insert),
                ]
            }
            Load::Payment => {
                let district = random.random_range(0..self.units * DISTRICTS_PER_WAREHOUSE);
                vec![
                    step(0, district / DISTRICTS_PER_WAREHOUSE, Access::Change),
                    step(1, district, Access::Change),
                    step(2, district * CUSTOMERS + random.random_range(0..CUSTOMERS), Access::Change),
                    step(3, new, Access::Insert),
                ]
            }
            Load::NewOrder => self.new_order(random, new),
            Load::Ycsb(_) => vec![self.ycsb(random)],
        }
    }

    fn new_order(&self, random: &mut Xoshiro256PlusPlus, new: u64) -> Vec<Step> {
        let step = |table, key, access| Step { table, key, access };
        let district = random.random_range(0..self.units * DISTRICTS_PER_WAREHOUSE);
        let warehouse = district / DISTRICTS_PER_WAREHOUSE;
        let mut steps = vec![
            step(0, warehouse, Access::Read),
            step(1, district, Access::Change),
            step(2, district * CUSTOMERS + random.random_range(0..CUSTOMERS), Access::Read),
            step(5, new, Access::Insert),
            step(6, new, Access::Insert),
        ];
        for line in 0..random.random_range(5..=15) {
            // lines of an order have distinct items, so that no record is changed twice
            let item = (random.random_range(0..ITEMS / 16) * 16 + line) % ITEMS;
            steps.push(step(3, item, Access::Read));
            steps.push(step(4, warehouse * ITEMS + item, Access::Change));
            steps.push(step(7, new + line, Access::Insert));
        }
        steps
    }

    fn ycsb(&mut self, random: &mut Xoshiro256PlusPlus) -> Step {
        let draws = self.ycsb.as_ref().expect("a load of YCSB has its draws");
        let access = match draws.operation(random) {
            Operation::Read | Operation::Scan => Access::Read,
            Operation::Update => Access::Write,
            Operation::Insert => Access::Insert,
            Operation::ReadModifyWrite => Access::Change,
        };
        self.inserted -= u64::from(access != Access::Insert);
        let records = self.units * 1000 + self.inserted;
        // an insert draws a record too, so that a seed means the same accesses in all loads
        let drawn = draws.record(records, random);
        let key = if access == Access::Insert { records - 1 } else { drawn };
        Step { table: 0, key, access }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn what_is_read_is_there_and_what_is_inserted_is_not() {
        let loads = [Workload::A, Workload::B, Workload::C, Workload::D, Workload::F].map(Load::Ycsb);
        for load in loads.into_iter().chain([Load::AccountUpdate, Load::NewOrder, Load::Payment]) {
            let (mut drawer, mut random) = (Drawer::new(load, 3), Xoshiro256PlusPlus::seed_from_u64(1));
            let mut there: Vec<BTreeSet<u64>> =
                load.tables(3).iter().map(|table| (0..table.records).collect()).collect();
            for _ in 0..2000 {
                let steps = drawer.draw(&mut random);
                for step in &steps {
                    match step.access {
                        Access::Insert => assert!(there[step.table].insert(step.key), "{load:?}: {step:?}"),
                        _ => assert!(there[step.table].contains(&step.key), "{load:?}: {step:?}"),
                    }
                }
                let places: BTreeSet<(usize, u64)> =
                    steps.iter().map(|step| (step.table, step.key)).collect();
                assert_eq!(places.len(), steps.len(), "{load:?}: {steps:?}");
            }
        }
    }
}
