//! Transactions of Atomic-Writes: writes to the logs, then the commit.
//!
//! Invariants: the numbers of a slot's transactions only grow; a transaction commits only after each of its writes was
//! acknowledged; an unacknowledged write is sent again, which is idempotent.

use std::collections::BTreeMap;

use tantalum::Nanoseconds;

use super::{AtomicWrites, AtomicWritesError, BATCH_BYTES, RECORDS, SLOTS, handler};
use crate::answer;
use crate::error::SpuError;
use crate::host::Event;
use crate::names::{EndpointId, ProgramId, SpuId};
use crate::system::Ssd;

const ABORTED: i32 = 1;
const BUSY: i32 = 2;
const LATER: i32 = 6;

/// How often the library repeats requests that found a full queue or a busy slot before it gives up.
const ATTEMPTS: u32 = 1000;
/// How long the library waits before it repeats a request.
const AGAIN_NS: Nanoseconds = 20_000;

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All its writes are in place, and durable.
    Committed,
    /// None of them is in place. The answer that caused this.
    Aborted(i32),
    /// All or none of them are; only recovery can tell which. The answer that left this open.
    InDoubt(i32),
}

/// A request with writes: one write within a stripe, or, in a batch, all writes of a processor.
#[derive(Clone, Debug)]
struct Piece {
    spu: SpuId,
    handler: u32,
    homes: Vec<u64>,
    body: Vec<u8>,
}

/// A part of a write that lies within a stripe.
struct Part<'a> {
    spu: SpuId,
    /// Its index among the parts of its processor.
    record: u32,
    home: u64,
    data: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Logging,
    Committing,
    Aborting(i32),
    Ended(Outcome),
}

/// A transaction in progress. Events drive it: pass each to [`Transaction::take`] until that returns an outcome. Transactions
/// in different slots may be in progress at once.
#[derive(Debug)]
pub struct Transaction {
    endpoint: EndpointId,
    program: ProgramId,
    number: u64,
    pieces: Vec<Piece>,
    /// In a batch, the piece that is sent last and commits.
    last: Option<usize>,
    participants: u64,
    /// Requests in flight: the piece that each is about, if it is a write.
    under_way: BTreeMap<u64, Option<usize>>,
    /// Pieces whose permission has been requested from the driver.
    missing: Vec<usize>,
    phase: Phase,
    attempts: u32,
}

impl Transaction {
    /// Begins a transaction of these writes at `at_ns`, and sends them to the logs. A single write within one stripe takes one
    /// request in all.
    pub fn begin(
        ssd: &mut Ssd,
        atomic: AtomicWrites,
        endpoint: EndpointId,
        number: u64,
        writes: &[(u64, Vec<u8>)],
        at_ns: Nanoseconds,
    ) -> Result<Transaction, AtomicWritesError> {
        let parts = parts_of(ssd, writes)?;
        let handler = if parts.len() == 1 { handler::LOGWRITECOMMIT } else { handler::LOGWRITE };
        let pieces = parts.iter().map(|part| part.piece(number, handler)).collect();
        let mut begun = Transaction::new(atomic, endpoint, number, pieces);
        begun.participants = parts.iter().fold(0, |mask, part| mask | 1 << part.spu.0);
        for piece in 0..begun.pieces.len() {
            begun.send_piece(ssd, piece, at_ns)?;
        }
        Ok(begun)
    }

    /// Begins a transaction of these writes at `at_ns`; they cannot be edited before the commit. Each processor gets its writes
    /// in one request, and the last of these commits.
    pub fn begin_batch(
        ssd: &mut Ssd,
        atomic: AtomicWrites,
        endpoint: EndpointId,
        number: u64,
        writes: &[(u64, Vec<u8>)],
        at_ns: Nanoseconds,
    ) -> Result<Transaction, AtomicWritesError> {
        let parts = parts_of(ssd, writes)?;
        if parts.len() < 2 {
            return Transaction::begin(ssd, atomic, endpoint, number, writes, at_ns);
        }
        let mut of_spu: BTreeMap<SpuId, Vec<Part<'_>>> = BTreeMap::new();
        for part in parts {
            of_spu.entry(part.spu).or_default().push(part);
        }
        for (&spu, parts) in &of_spu {
            let bytes = parts.iter().map(|part| part.data.len()).sum();
            if bytes > BATCH_BYTES {
                return Err(AtomicWritesError::TooManyBytes { spu, bytes });
            }
        }
        let mut begun = Transaction::new(atomic, endpoint, number, Vec::new());
        begun.participants = of_spu.keys().fold(0, |mask, spu| mask | 1 << spu.0);
        let coordinator = begun.coordinator();
        begun.pieces = of_spu
            .into_iter()
            .map(|(spu, parts)| batch(spu, &parts, number, begun.participants, coordinator))
            .collect();
        begun.last = begun.pieces.iter().position(|piece| piece.spu == coordinator);
        let last = begun.last;
        for piece in (0..begun.pieces.len()).filter(|piece| Some(*piece) != last) {
            begun.send_piece(ssd, piece, at_ns)?;
        }
        begun.go_on(ssd, at_ns)?;
        Ok(begun)
    }

    fn new(atomic: AtomicWrites, endpoint: EndpointId, number: u64, pieces: Vec<Piece>) -> Transaction {
        Transaction {
            endpoint,
            program: atomic.program,
            number,
            pieces,
            last: None,
            participants: 0,
            under_way: BTreeMap::new(),
            missing: Vec::new(),
            phase: Phase::Logging,
            attempts: 0,
        }
    }

    /// The processors that have writes of it, as a bit mask.
    pub fn participants(&self) -> u64 {
        self.participants
    }

    fn send_piece(&mut self, ssd: &mut Ssd, index: usize, at_ns: Nanoseconds) -> Result<(), SpuError> {
        let piece = &self.pieces[index];
        let to = (self.program, piece.handler);
        let request = ssd.send(self.endpoint, piece.spu, to, piece.body.clone(), at_ns)?;
        self.under_way.insert(request, Some(index));
        Ok(())
    }

    fn send_decision(
        &mut self,
        ssd: &mut Ssd,
        handler: u32,
        spu: SpuId,
        at_ns: Nanoseconds,
    ) -> Result<(), SpuError> {
        let body = [self.number.to_le_bytes(), self.participants.to_le_bytes()].concat();
        let request = ssd.send(self.endpoint, spu, (self.program, handler), body, at_ns)?;
        self.under_way.insert(request, None);
        Ok(())
    }

    /// The processor that the host chooses as coordinator: the participants take turns.
    fn coordinator(&self) -> SpuId {
        let count = u64::from(self.participants.count_ones());
        let turn = if count == 0 { 0 } else { self.number / SLOTS % count };
        let nth = (0..64).filter(|spu| self.participants >> spu & 1 == 1).nth(turn as usize);
        SpuId(nth.unwrap_or(0))
    }

    /// Sends the commit a second time, like a host that lost the answer.
    pub fn repeat_commit(&mut self, ssd: &mut Ssd, at_ns: Nanoseconds) -> Result<u64, SpuError> {
        let spu = self.coordinator();
        let (handler, body) = match self.last {
            Some(last) => (handler::LOGWRITESCOMMIT, self.pieces[last].body.clone()),
            None => {
                let body = [self.number.to_le_bytes(), self.participants.to_le_bytes()].concat();
                (handler::COMMIT, body)
            }
        };
        ssd.send(self.endpoint, spu, (self.program, handler), body, at_ns)
    }

    /// Sends all writes a second time, like a network that delivers duplicates.
    pub fn repeat_writes(&mut self, ssd: &mut Ssd, at_ns: Nanoseconds) -> Result<(), SpuError> {
        for piece in 0..self.pieces.len() {
            self.send_piece(ssd, piece, at_ns)?;
        }
        self.under_way.clear();
        Ok(())
    }

    /// Handles an event. Returns the outcome once the transaction has ended.
    pub fn take(&mut self, ssd: &mut Ssd, event: &Event) -> Result<Option<Outcome>, SpuError> {
        match event {
            Event::Answer { request, status, at_ns, .. } => {
                if let Some(piece) = self.under_way.remove(request) {
                    match piece {
                        Some(piece) => self.written(ssd, piece, *status, *at_ns)?,
                        None => self.decided(ssd, *status, *at_ns)?,
                    }
                }
            }
            Event::Permission { endpoint, spu, range, granted, at_ns } if *endpoint == self.endpoint => {
                let is_its = |&index: &usize| {
                    let piece = &self.pieces[index];
                    piece.spu == *spu && piece.homes.contains(&range.start)
                };
                if let Some(at) = self.missing.iter().position(is_its) {
                    let piece = self.missing.remove(at);
                    match granted {
                        true => self.send_piece(ssd, piece, *at_ns)?,
                        false => self.abort(ssd, answer::NO_PERMISSION, *at_ns)?,
                    }
                }
            }
            _ => {}
        }
        self.go_on(ssd, event.at_ns())?;
        Ok(if let Phase::Ended(outcome) = self.phase { Some(outcome) } else { None })
    }

    fn written(
        &mut self,
        ssd: &mut Ssd,
        piece: usize,
        status: i32,
        at_ns: Nanoseconds,
    ) -> Result<(), SpuError> {
        let commits = Some(piece) == self.last;
        match status {
            answer::OK if commits => self.phase = Phase::Ended(Outcome::Committed),
            answer::OK => {}
            answer::NO_PERMISSION => self.missing.push(piece),
            answer::NOT_DELIVERED | answer::TIMEOUT | BUSY
                if (commits || self.phase == Phase::Logging) && self.attempts < ATTEMPTS =>
            {
                self.attempts += 1;
                self.send_piece(ssd, piece, at_ns + AGAIN_NS)?;
            }
            status if commits => self.decided(ssd, status, at_ns)?,
            status => self.abort(ssd, status, at_ns)?,
        }
        Ok(())
    }

    fn abort(&mut self, ssd: &mut Ssd, status: i32, at_ns: Nanoseconds) -> Result<(), SpuError> {
        // a batch whose coordinator refused it for a missing permission is not committed
        if self.phase == Phase::Logging || (self.phase == Phase::Committing && self.last.is_some()) {
            self.phase = Phase::Aborting(status);
            self.missing.clear();
            if self.pieces.len() > 1 {
                let participants = self.participants;
                for spu in (0..64).filter(|spu| participants >> spu & 1 == 1) {
                    self.send_decision(ssd, handler::ABORT, SpuId(spu), at_ns)?;
                }
            }
        }
        Ok(())
    }

    fn decided(&mut self, ssd: &mut Ssd, status: i32, at_ns: Nanoseconds) -> Result<(), SpuError> {
        if self.phase != Phase::Committing {
            return Ok(());
        }
        match status {
            answer::OK => self.phase = Phase::Ended(Outcome::Committed),
            ABORTED => self.phase = Phase::Ended(Outcome::Aborted(ABORTED)),
            answer::NOT_DELIVERED | answer::TIMEOUT | BUSY | LATER if self.attempts < ATTEMPTS => {
                self.attempts += 1;
                let spu = self.coordinator();
                self.send_decision(ssd, handler::COMMIT, spu, at_ns + AGAIN_NS)?;
            }
            BUSY | LATER | answer::TIMEOUT | answer::ENDED | answer::NO_ANSWER | answer::DRIVE => {
                self.phase = Phase::Ended(Outcome::InDoubt(status));
            }
            status => self.phase = Phase::Ended(Outcome::Aborted(status)),
        }
        Ok(())
    }

    /// Enters the next phase when nothing of this one is in flight.
    fn go_on(&mut self, ssd: &mut Ssd, at_ns: Nanoseconds) -> Result<(), SpuError> {
        if !self.under_way.is_empty() || !self.missing.is_empty() {
            return Ok(());
        }
        match self.phase {
            Phase::Logging => match self.last {
                Some(last) => {
                    self.phase = Phase::Committing;
                    self.send_piece(ssd, last, at_ns)?;
                }
                None if self.pieces.len() <= 1 => self.phase = Phase::Ended(Outcome::Committed),
                None => {
                    self.phase = Phase::Committing;
                    let spu = self.coordinator();
                    self.send_decision(ssd, handler::COMMIT, spu, at_ns)?;
                }
            },
            Phase::Aborting(status) => self.phase = Phase::Ended(Outcome::Aborted(status)),
            Phase::Committing | Phase::Ended(_) => {}
        }
        Ok(())
    }
}

/// Splits writes at the boundaries of stripes.
fn parts_of<'a>(ssd: &Ssd, writes: &'a [(u64, Vec<u8>)]) -> Result<Vec<Part<'a>>, AtomicWritesError> {
    let mut parts = Vec::new();
    let mut records: BTreeMap<SpuId, usize> = BTreeMap::new();
    for (home, data) in writes {
        for (spu, range) in ssd.stripes().pieces(*home..home.saturating_add(data.len() as u64)) {
            let record = records.entry(spu).or_default();
            let data = &data[(range.start - home) as usize..(range.end - home) as usize];
            parts.push(Part { spu, record: *record as u32, home: range.start, data });
            *record += 1;
        }
    }
    match records.iter().find(|(_, records)| **records > RECORDS) {
        Some((&spu, &writes)) => Err(AtomicWritesError::TooManyWrites { spu, writes }),
        None => Ok(parts),
    }
}

impl Part<'_> {
    /// A request of its own.
    fn piece(&self, number: u64, handler: u32) -> Piece {
        let mut body = Vec::with_capacity(24 + self.data.len());
        body.extend(number.to_le_bytes());
        body.extend(self.home.to_le_bytes());
        body.extend((self.data.len() as u32).to_le_bytes());
        body.extend(self.record.to_le_bytes());
        body.extend(self.data);
        Piece { spu: self.spu, handler, homes: vec![self.home], body }
    }
}

/// All parts of a processor in one request.
fn batch(spu: SpuId, parts: &[Part<'_>], number: u64, participants: u64, coordinator: SpuId) -> Piece {
    let mut body = Vec::new();
    body.extend(number.to_le_bytes());
    body.extend(participants.to_le_bytes());
    body.extend(coordinator.0.to_le_bytes());
    body.extend((parts.len() as u32).to_le_bytes());
    for part in parts {
        body.extend(part.home.to_le_bytes());
        body.extend((part.data.len() as u64).to_le_bytes());
    }
    parts.iter().for_each(|part| body.extend(part.data));
    let handler = if spu == coordinator { handler::LOGWRITESCOMMIT } else { handler::LOGWRITES };
    Piece { spu, handler, homes: parts.iter().map(|part| part.home).collect(), body }
}
