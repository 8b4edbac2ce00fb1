//! What lies where, and transfers: TPC-B's branches, tellers, accounts and history.
//!
//! A page begins with 8 bytes for the log's position of its last change, and has records of 100 bytes: number, balance, filler.
//! Every transfer changes a branch, so each branch has a page of its own: otherwise all of them would be one processor's.
//! Lines of history have 48 bytes. Each client appends to pages of its own.

use tantalum::{STRIPE_BYTES, SplitMix64, UNIT_BYTES};

use crate::locks::RecordId;

/// Bytes of a page: a unit, which the drive never tears.
pub(crate) const PAGE_BYTES: usize = UNIT_BYTES;
const PAGE_HEAD_BYTES: usize = 8;
const RECORD_BYTES: usize = 100;
const RECORDS_PER_PAGE: u64 = ((PAGE_BYTES - PAGE_HEAD_BYTES) / RECORD_BYTES) as u64;
/// Where a record's balance is in it.
const BALANCE_AT: usize = 8;
pub(crate) const HISTORY_BYTES: usize = 48;
const LINES_PER_PAGE: u64 = ((PAGE_BYTES - PAGE_HEAD_BYTES) / HISTORY_BYTES) as u64;

/// Where the log's last checkpoint is told, in a unit of its own.
pub(crate) const MASTER_AT: u64 = 0;
/// Where the log begins, and its size. It is a ring.
pub(crate) const LOG_AT: u64 = 64 << 10;

/// Tellers of a branch.
const TELLERS_PER_BRANCH: u64 = 10;
/// A change of a balance is at most this (TPC-B, 5.3.5).
const LARGEST_DELTA: u64 = 999_999;

/// How large the tables, the pool and the log are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Branches, with ten tellers each.
    pub branches: u64,
    /// Accounts of each branch.
    pub accounts_per_branch: u64,
    /// Transfers that the history of each client has room for.
    pub transfers_per_client: u64,
    /// Pages that the buffer pool holds.
    pub frames: usize,
    /// Bytes of ARIES's log. A checkpoint is taken at each quarter.
    pub log_bytes: u64,
}

/// Tables, in the order in which records are locked.
pub(crate) const ACCOUNTS: u8 = 0;
pub(crate) const TELLERS: u8 = 1;
pub(crate) const BRANCHES: u8 = 2;

/// Where everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub size: Size,
    clients: u64,
    /// The first page of each table, then of the history, then the page after it.
    first: [u64; 5],
}

/// A transfer between a teller's branch and an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transfer {
    pub account: u64,
    pub teller: u64,
    pub branch: u64,
    pub delta: i64,
}

/// Bytes of a page: which page, from where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub page: u64,
    pub offset: usize,
}

impl Place {
    /// Where it is in the drive.
    pub fn address(self) -> u64 {
        self.page * PAGE_BYTES as u64 + self.offset as u64
    }
}

/// Records of a table in one page.
fn per_page(table: u8) -> u64 {
    if table == BRANCHES { 1 } else { RECORDS_PER_PAGE }
}

impl Layout {
    pub fn new(size: Size, clients: usize) -> Layout {
        let clients = clients as u64;
        let start = (LOG_AT + size.log_bytes).next_multiple_of(STRIPE_BYTES) / PAGE_BYTES as u64;
        let lengths = [
            (size.branches * size.accounts_per_branch).div_ceil(per_page(ACCOUNTS)),
            (size.branches * TELLERS_PER_BRANCH).div_ceil(per_page(TELLERS)),
            size.branches.div_ceil(per_page(BRANCHES)),
            clients * size.transfers_per_client.div_ceil(LINES_PER_PAGE),
        ];
        let mut first = [start; 5];
        for (table, length) in lengths.into_iter().enumerate() {
            first[table + 1] = first[table] + length;
        }
        Layout { size, clients, first }
    }

    /// The pages of all tables.
    pub fn pages(&self) -> std::ops::Range<u64> {
        self.first[0]..self.first[4]
    }

    /// Bytes of log and tables.
    pub fn bytes(&self) -> u64 {
        self.first[4] * PAGE_BYTES as u64
    }

    fn records(&self, table: u8) -> u64 {
        match table {
            ACCOUNTS => self.size.branches * self.size.accounts_per_branch,
            TELLERS => self.size.branches * TELLERS_PER_BRANCH,
            _ => self.size.branches,
        }
    }

    /// A record's balance.
    pub fn balance(&self, (table, number): RecordId) -> Place {
        Place {
            page: self.first[table as usize] + number / per_page(table),
            offset: PAGE_HEAD_BYTES + (number % per_page(table)) as usize * RECORD_BYTES + BALANCE_AT,
        }
    }

    /// A client's line of history.
    pub fn line(&self, client: usize, number: u64) -> Place {
        let pages = self.size.transfers_per_client.div_ceil(LINES_PER_PAGE);
        Place {
            page: self.first[3] + client as u64 * pages + number / LINES_PER_PAGE,
            offset: PAGE_HEAD_BYTES + (number % LINES_PER_PAGE) as usize * HISTORY_BYTES,
        }
    }

    /// A page as it is loaded: records with their numbers and no balance.
    pub fn fresh(&self, page: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        let table = (0..3_u8).find(|&table| page < self.first[table as usize + 1]);
        if let Some(table) = table {
            let begin = (page - self.first[table as usize]) * per_page(table);
            for number in begin..(begin + per_page(table)).min(self.records(table)) {
                let at = self.balance((table, number)).offset - BALANCE_AT;
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
        }
        bytes
    }

    pub fn draw(&self, random: &mut SplitMix64) -> Transfer {
        let teller = random.below(self.records(TELLERS));
        Transfer {
            account: random.below(self.records(ACCOUNTS)),
            teller,
            branch: teller / TELLERS_PER_BRANCH,
            delta: random.below(2 * LARGEST_DELTA + 1) as i64 - LARGEST_DELTA as i64,
        }
    }

    /// Whether all balances agree with the history. Returns, of each client, how many lines it has: they are without gaps.
    pub fn check(&self, mut page: impl FnMut(u64) -> Vec<u8>) -> Result<Vec<u64>, String> {
        let mut expected =
            [ACCOUNTS, TELLERS, BRANCHES].map(|table| vec![0_i64; self.records(table) as usize]);
        let mut lines = Vec::new();
        for client in 0..self.clients as usize {
            let mut count = 0;
            for number in 0..self.size.transfers_per_client {
                let place = self.line(client, number);
                let bytes = page(place.page);
                let Some((stored, transfer)) = Transfer::parse(&bytes[place.offset..][..HISTORY_BYTES])
                else {
                    continue;
                };
                if stored != number || count != number {
                    return Err(format!("client {client}: line {number} is {stored}, after {count} lines"));
                }
                count += 1;
                for (table, record) in transfer.records() {
                    expected[table as usize][record as usize] += transfer.delta;
                }
            }
            lines.push(count);
        }
        for table in [ACCOUNTS, TELLERS, BRANCHES] {
            for number in 0..self.records(table) {
                let place = self.balance((table, number));
                let bytes = page(place.page);
                let balance = read_i64(&bytes, place.offset);
                let right = expected[table as usize][number as usize];
                if balance != right {
                    return Err(format!(
                        "record {number} of table {table} holds {balance}, and history says {right}"
                    ));
                }
            }
        }
        Ok(lines)
    }
}

impl Transfer {
    /// The records that it changes, in the order in which they are locked.
    pub fn records(&self) -> [RecordId; 3] {
        [(ACCOUNTS, self.account), (TELLERS, self.teller), (BRANCHES, self.branch)]
    }

    /// Its line of history.
    pub fn line(&self, number: u64) -> [u8; HISTORY_BYTES] {
        let mut line = [0; HISTORY_BYTES];
        let fields = [number + 1, self.account, self.teller, self.branch, self.delta as u64];
        for (field, place) in fields.iter().zip(line.chunks_exact_mut(8)) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        line
    }

    /// A line of history with its number, unless there is none.
    fn parse(line: &[u8]) -> Option<(u64, Transfer)> {
        let field = |index: usize| read_i64(line, index * 8) as u64;
        let number = field(0).checked_sub(1)?;
        Some((
            number,
            Transfer { account: field(1), teller: field(2), branch: field(3), delta: field(4) as i64 },
        ))
    }
}

pub(crate) fn read_i64(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
