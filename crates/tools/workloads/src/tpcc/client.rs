//! A client: draws transactions for its warehouse and executes them.

use mysql::Conn;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::transactions::Terminal;
use super::{SHARES, Tables};
use crate::clients::Client;
use crate::distributions::Mix;
use crate::error::WorkloadError;
use crate::mariadb_retry::until_no_deadlock;

/// A client with its connection.
pub struct TpccClient {
    terminal: Terminal,
    mix: Mix,
}

impl TpccClient {
    /// A client that works for one warehouse, from 1.
    pub fn new(connection: Conn, warehouse: u64, tables: Tables, seed: u64) -> TpccClient {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mix = Mix::new(SHARES.map(|(_, share)| share));
        TpccClient { terminal: Terminal { connection, random, warehouse, tables }, mix }
    }
}

impl Client for TpccClient {
    type Error = WorkloadError;

    fn step(&mut self) -> Result<usize, WorkloadError> {
        let kind = self.mix.draw(&mut self.terminal.random);
        until_no_deadlock(|| match kind {
            0 => self.terminal.new_order(),
            1 => self.terminal.payment(),
            2 => self.terminal.order_status(),
            3 => self.terminal.delivery(),
            _ => self.terminal.stock_level(),
        })?;
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_have_the_standards_shares() {
        let mix = Mix::new(SHARES.map(|(_, share)| share));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        let mut seen = [0.0; 5];
        (0..100_000).for_each(|_| seen[mix.draw(&mut random)] += 0.001);
        for ((name, share), seen) in SHARES.iter().zip(seen) {
            assert!((seen - share).abs() < 0.5, "{name}: {seen}");
        }
    }
}
