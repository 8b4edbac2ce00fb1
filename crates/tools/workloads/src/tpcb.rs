//! TPC-B as pgbench does it: a transfer between a teller's branch and an account, on PostgreSQL.
//!
//! Branches, tellers and accounts in the ratio of 1 to 10 to 100,000. A transaction changes the balance of one of each,
//! all drawn evenly, and writes a line of history.

use postgres::{Client as Connection, Statement};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::clients::Client;
use crate::error::WorkloadError;

/// Tellers of a branch.
const TELLERS_PER_BRANCH: i64 = 10;
/// Accounts of a branch.
const ACCOUNTS_PER_BRANCH: i64 = 100_000;

/// The largest change of a balance (TPC-B, 5.3.5; pgbench has 5000).
const LARGEST_DELTA: i64 = 5000;

const TABLES: &str = "\
    CREATE TABLE branches (bid BIGINT NOT NULL, balance BIGINT NOT NULL, filler CHAR(88)) WITH (fillfactor = 100); \
    CREATE TABLE tellers (tid BIGINT NOT NULL, bid BIGINT NOT NULL, balance BIGINT NOT NULL, filler CHAR(84)); \
    CREATE TABLE accounts (aid BIGINT NOT NULL, bid BIGINT NOT NULL, balance BIGINT NOT NULL, filler CHAR(84)); \
    CREATE TABLE history (tid BIGINT, bid BIGINT, aid BIGINT, delta BIGINT, mtime TIMESTAMP, filler CHAR(22))";

/// Creates and fills the tables.
pub fn load(connection: &mut Connection, branches: i64) -> Result<(), WorkloadError> {
    let (tellers, accounts) = (branches * TELLERS_PER_BRANCH, branches * ACCOUNTS_PER_BRANCH);
    let fill = format!(
        "INSERT INTO branches SELECT b, 0, '' FROM generate_series(1, {branches}) AS b; \
         INSERT INTO tellers SELECT t, (t - 1) / {TELLERS_PER_BRANCH} + 1, 0, '' FROM generate_series(1, {tellers}) AS t; \
         INSERT INTO accounts SELECT a, (a - 1) / {ACCOUNTS_PER_BRANCH} + 1, 0, '' FROM generate_series(1, {accounts}) AS a; \
         ALTER TABLE branches ADD PRIMARY KEY (bid); ALTER TABLE tellers ADD PRIMARY KEY (tid); \
         ALTER TABLE accounts ADD PRIMARY KEY (aid); ANALYZE; CHECKPOINT"
    );
    for text in [TABLES].into_iter().chain(fill.split("; ")) {
        connection.batch_execute(text).map_err(WorkloadError::from)?;
    }
    Ok(())
}

/// Whether every teller, branch and account agrees with the history (TPC-B, 2.3).
pub fn is_consistent(connection: &mut Connection) -> Result<bool, WorkloadError> {
    let sums = "SELECT (SELECT SUM(balance) FROM branches)::BIGINT, (SELECT SUM(balance) FROM tellers)::BIGINT, \
        (SELECT SUM(balance) FROM accounts)::BIGINT, (SELECT COALESCE(SUM(delta), 0) FROM history)::BIGINT";
    let row = connection.query_one(sums, &[])?;
    let sum = |column| row.get::<usize, i64>(column);
    Ok((1..4).all(|column| sum(column) == sum(0)))
}

/// The parameters of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Transfer {
    teller: i64,
    branch: i64,
    account: i64,
    delta: i64,
}

impl Transfer {
    fn draw(random: &mut Xoshiro256PlusPlus, branches: i64) -> Transfer {
        Transfer {
            teller: random.random_range(1..=branches * TELLERS_PER_BRANCH),
            branch: random.random_range(1..=branches),
            account: random.random_range(1..=branches * ACCOUNTS_PER_BRANCH),
            delta: random.random_range(-LARGEST_DELTA..=LARGEST_DELTA),
        }
    }
}

/// A client with its connection.
pub struct TpcbClient {
    connection: Connection,
    /// The statements of a transaction, prepared.
    statements: [Statement; 5],
    branches: i64,
    random: Xoshiro256PlusPlus,
}

impl TpcbClient {
    /// A client of tables loaded with this many branches.
    pub fn new(mut connection: Connection, branches: i64, seed: u64) -> Result<TpcbClient, WorkloadError> {
        let mut prepare = |text| connection.prepare(text);
        let statements = [
            prepare("UPDATE accounts SET balance = balance + $1 WHERE aid = $2")?,
            prepare("SELECT balance FROM accounts WHERE aid = $1")?,
            prepare("UPDATE tellers SET balance = balance + $1 WHERE tid = $2")?,
            prepare("UPDATE branches SET balance = balance + $1 WHERE bid = $2")?,
            prepare("INSERT INTO history VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)")?,
        ];
        Ok(TpcbClient { connection, statements, branches, random: Xoshiro256PlusPlus::seed_from_u64(seed) })
    }

    fn transfer(&mut self) -> Result<(), WorkloadError> {
        let Transfer { teller, branch, account, delta } = Transfer::draw(&mut self.random, self.branches);
        let [update_account, read, update_teller, update_branch, insert] = &self.statements;
        let mut transaction = self.connection.transaction()?;
        transaction.execute(update_account, &[&delta, &account])?;
        transaction.query_one(read, &[&account])?;
        transaction.execute(update_teller, &[&delta, &teller])?;
        transaction.execute(update_branch, &[&delta, &branch])?;
        transaction.execute(insert, &[&teller, &branch, &account, &delta])?;
        Ok(transaction.commit()?)
    }
}

impl Client for TpcbClient {
    type Error = WorkloadError;

    fn step(&mut self) -> Result<usize, WorkloadError> {
        self.transfer()?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_drawn_evenly_over_all_rows() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let transfers: Vec<Transfer> = (0..20_000).map(|_| Transfer::draw(&mut random, 2)).collect();
        let share = |holds: fn(&Transfer) -> bool| {
            transfers.iter().filter(|transfer| holds(transfer)).count() as f64 / transfers.len() as f64
        };
        assert!((share(|transfer| transfer.branch == 1) - 0.5).abs() < 0.02);
        assert!((share(|transfer| transfer.teller <= 5) - 0.25).abs() < 0.02);
        assert!((share(|transfer| transfer.account <= 100_000) - 0.5).abs() < 0.02);
        assert!((share(|transfer| transfer.delta > 0) - 0.5).abs() < 0.02);
        assert!(
            transfers.iter().all(|transfer| transfer.delta.abs() <= LARGEST_DELTA && transfer.account > 0)
        );
    }
}
