//! Layout and transfers: TPC-B's branches, tellers, accounts and history.
//!
//! A page begins with 8 bytes for the log's position of its last change, and has records of 100 bytes: number, balance, filler.
//! Every transfer changes a branch, so each branch has its own page: otherwise all of them would be on one processor. Lines
//! of history have 48 bytes.
//!
//! A transfer changes few processors' stripes: tellers are in the page of their branch, and each client has a history on each
//! processor; a transfer appends to the one on its branch's processor. So only its account may be elsewhere.

use tantalum::{STRIPE_BYTES, UNIT_BYTES};
use tantalum_image::SplitMix64;

use crate::locks::RecordId;

/// Bytes of a page: a unit, which the drive never tears.
pub(crate) const PAGE_BYTES: usize = UNIT_BYTES;
const PAGE_HEAD_BYTES: usize = 8;
const RECORD_BYTES: usize = 100;
const RECORDS_PER_PAGE: u64 = ((PAGE_BYTES - PAGE_HEAD_BYTES) / RECORD_BYTES) as u64;
/// The offset of the balance in a record.
const BALANCE_AT: usize = 8;
pub(crate) const HISTORY_BYTES: usize = 48;
const LINES_PER_PAGE: u64 = ((PAGE_BYTES - PAGE_HEAD_BYTES) / HISTORY_BYTES) as u64;

/// Pages of a stripe, and lines of history in it.
const STRIPE_PAGES: u64 = STRIPE_BYTES / PAGE_BYTES as u64;
const LINES_PER_STRIPE: u64 = STRIPE_PAGES * LINES_PER_PAGE;

/// The place of the log's last checkpoint, in a separate unit.
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
    /// The number of transfers for which each client's history has room.
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
    processors: u64,
    /// The first page of the accounts, of the branches, of the history, and the page after it.
    first: [u64; 4],
}

/// A transfer between a teller's branch and an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transfer {
    pub account: u64,
    pub teller: u64,
    pub branch: u64,
    pub delta: i64,
}

/// Bytes of a page: the page and the offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageOffset {
    pub page: u64,
    pub offset: usize,
}

impl PageOffset {
    /// Where it is in the drive.
    pub fn address(self) -> u64 {
        self.page * PAGE_BYTES as u64 + self.offset as u64
    }
}

impl Layout {
    pub fn new(size: Size, clients: usize, processors: u32) -> Layout {
        let (clients, processors) = (clients as u64, u64::from(processors));
        let accounts = (LOG_AT + size.log_bytes).next_multiple_of(STRIPE_BYTES) / PAGE_BYTES as u64;
        let branches = accounts + (size.branches * size.accounts_per_branch).div_ceil(RECORDS_PER_PAGE);
        let row_pages = processors * STRIPE_PAGES;
        let history = (branches + size.branches).next_multiple_of(row_pages);
        let end = history + clients * rows(size) * row_pages;
        Layout { size, clients, processors, first: [accounts, branches, history, end] }
    }

    /// The pages of all tables.
    pub fn pages(&self) -> std::ops::Range<u64> {
        self.first[0]..self.first[3]
    }

    /// The pages of accounts and branches.
    pub fn pages_of_records(&self) -> std::ops::Range<u64> {
        self.first[0]..self.first[1] + self.size.branches
    }

    /// Bytes of log and tables.
    pub fn bytes(&self) -> u64 {
        self.first[3] * PAGE_BYTES as u64
    }

    fn records(&self, table: u8) -> u64 {
        match table {
            ACCOUNTS => self.size.branches * self.size.accounts_per_branch,
            TELLERS => self.size.branches * TELLERS_PER_BRANCH,
            _ => self.size.branches,
        }
    }

    /// A record's balance.
    pub fn balance(&self, (table, number): RecordId) -> PageOffset {
        let (page, index) = match table {
            ACCOUNTS => (self.first[0] + number / RECORDS_PER_PAGE, number % RECORDS_PER_PAGE),
            TELLERS => (self.first[1] + number / TELLERS_PER_BRANCH, 1 + number % TELLERS_PER_BRANCH),
            _ => (self.first[1] + number, 0),
        };
        PageOffset { page, offset: PAGE_HEAD_BYTES + index as usize * RECORD_BYTES + BALANCE_AT }
    }

    /// The history to which a transfer is written: the one on the processor that has its branch.
    pub fn history_of(&self, transfer: &Transfer) -> usize {
        let page = self.balance((BRANCHES, transfer.branch)).page;
        (page / STRIPE_PAGES % self.processors) as usize
    }

    /// A line of one of a client's histories.
    pub fn line(&self, client: usize, history: usize, number: u64) -> PageOffset {
        let row = client as u64 * rows(self.size) + number / LINES_PER_STRIPE;
        let in_stripe = number % LINES_PER_STRIPE;
        let stripe = self.first[2] + (row * self.processors + history as u64) * STRIPE_PAGES;
        PageOffset {
            page: stripe + in_stripe / LINES_PER_PAGE,
            offset: PAGE_HEAD_BYTES + (in_stripe % LINES_PER_PAGE) as usize * HISTORY_BYTES,
        }
    }

    /// A page as loaded initially: records with their numbers and zero balances.
    pub fn fresh(&self, page: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        let mut put = |record: RecordId| {
            let at = self.balance(record).offset - BALANCE_AT;
            bytes[at..at + 8].copy_from_slice(&record.1.to_le_bytes());
        };
        if page < self.first[1] {
            let begin = (page - self.first[0]) * RECORDS_PER_PAGE;
            let end = (begin + RECORDS_PER_PAGE).min(self.records(ACCOUNTS));
            (begin..end).for_each(|account| put((ACCOUNTS, account)));
        } else if page < self.first[1] + self.size.branches {
            let branch = page - self.first[1];
            put((BRANCHES, branch));
            (0..TELLERS_PER_BRANCH).for_each(|teller| put((TELLERS, branch * TELLERS_PER_BRANCH + teller)));
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

    /// Whether all balances agree with the history. Returns, for each client, the lines of each of its histories: they are without
    /// gaps, and so are the numbers of a client's transfers.
    pub fn check<'a>(&self, page: impl Fn(u64) -> &'a [u8]) -> Result<Vec<Vec<u64>>, String> {
        let mut expected =
            [ACCOUNTS, TELLERS, BRANCHES].map(|table| vec![0_i64; self.records(table) as usize]);
        let mut lines = Vec::new();
        for client in 0..self.clients as usize {
            let transfers = self.histories(client, &page)?;
            let mut numbers: Vec<u64> = transfers.iter().flatten().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            if let Some((at, number)) = (0..).zip(&numbers).find(|(at, number)| at != *number) {
                return Err(format!("client {client}: transfer {at} is not in the history, and {number} is"));
            }
            for (_, transfer) in transfers.iter().flatten() {
                for (table, record) in transfer.records() {
                    expected[table as usize][record as usize] += transfer.delta;
                }
            }
            lines.push(transfers.iter().map(|history| history.len() as u64).collect());
        }
        for table in [ACCOUNTS, TELLERS, BRANCHES] {
            for number in 0..self.records(table) {
                let place = self.balance((table, number));
                let balance = read_i64(page(place.page), place.offset);
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

    /// The transfers in each of a client's histories, with their numbers.
    fn histories<'a>(
        &self,
        client: usize,
        page: impl Fn(u64) -> &'a [u8],
    ) -> Result<Vec<Vec<(u64, Transfer)>>, String> {
        let mut histories = Vec::new();
        for history in 0..self.processors as usize {
            let mut found: Vec<(u64, Transfer)> = Vec::new();
            for line in 0..self.size.transfers_per_client {
                let place = self.line(client, history, line);
                let Some(stored) = Transfer::parse(&page(place.page)[place.offset..][..HISTORY_BYTES]) else {
                    continue;
                };
                if found.len() as u64 != line {
                    let lines = found.len();
                    return Err(format!("client {client}: history {history} has line {line} after {lines}"));
                }
                found.push(stored);
            }
            histories.push(found);
        }
        Ok(histories)
    }
}

/// Rows of stripes for a client's histories: each has room for all its transfers.
fn rows(size: Size) -> u64 {
    size.transfers_per_client.div_ceil(LINES_PER_STRIPE)
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
