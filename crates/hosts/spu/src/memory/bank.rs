//! One bank of the processors' memory at work: what is loaded and stored, how long that takes, and its redo log.
//!
//! Invariants:
//! - A store is all or nothing over a power cut, and durable when it is acknowledged. Unless it is a single word, it goes to the
//!   bank's redo log, which one word then makes valid (that is the acknowledgement), and from there to its place.
//! - Start-gap moves lines between stores. Its word is stored after the line was copied.

use tantalum::{InsideMemory, Nanoseconds, Status, WORD_BYTES};

use super::layout::{Banks, LINES_AT, LOG_BYTES};
use super::start_gap::{LINE_BYTES, StartGap};

/// Where the log's body begins, after the word with its length.
const BODY_AT: u64 = WORD_BYTES;

/// What the banks have done since power came on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemoryCounters {
    /// How long all banks together were busy, ns.
    pub busy_ns: Nanoseconds,
    /// Bytes that were loaded.
    pub bytes_loaded: u64,
    /// Bytes that were stored, with those of logs and of moved lines.
    pub bytes_stored: u64,
    /// Lines that start-gap moved.
    pub lines_moved: u64,
}

/// What is known of a bank while there is power.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bank {
    gap: StartGap,
    /// Stores of lines since the last move.
    stores: u32,
    free_ns: Nanoseconds,
}

/// A bank at work.
pub(super) struct At<'a, 'b> {
    memory: &'a mut InsideMemory<'b>,
    banks: Banks,
    bank: &'a mut Bank,
    counters: &'a mut MemoryCounters,
    /// Where the bank begins in the drive's memory.
    first: u64,
}

/// Bytes at a place among those of a bank's lines.
pub(super) type Part<'a> = (u64, &'a [u8]);

impl Bank {
    /// Reads where start-gap has moved the lines of a bank, and replays the log that a cut left.
    pub fn recover(
        memory: &mut InsideMemory<'_>,
        banks: Banks,
        number: usize,
        counters: &mut MemoryCounters,
    ) -> Result<Bank, Status> {
        let mut word = [0; WORD_BYTES as usize];
        let free_ns = memory.load(banks.bank_at(number), &mut word)?;
        let gap = StartGap::new(banks.lines(), u64::from_le_bytes(word));
        let mut bank = Bank { gap, stores: 0, free_ns };
        bank.at(memory, banks, number, counters).recover()?;
        Ok(bank)
    }

    /// The bank at work.
    pub fn at<'a, 'b>(
        &'a mut self,
        memory: &'a mut InsideMemory<'b>,
        banks: Banks,
        number: usize,
        counters: &'a mut MemoryCounters,
    ) -> At<'a, 'b> {
        At { memory, banks, bank: self, counters, first: banks.bank_at(number) }
    }
}

impl At<'_, '_> {
    // -- whole words, in place ----------------------------------------------------------------------------------

    /// The runs of a range that are contiguous in the drive's memory: where, and how many bytes.
    fn runs(&self, at: u64, bytes: u64) -> Vec<(u64, u64)> {
        let (mut runs, end, mut next): (Vec<(u64, u64)>, _, _) = (Vec::new(), at + bytes, at);
        let limit = self.banks.lines() * LINE_BYTES;
        debug_assert!(end <= limit, "{bytes} bytes at {at} are beyond the lines of a bank, {limit} bytes");
        while next < end {
            let count = (LINE_BYTES - next % LINE_BYTES).min(end - next);
            let place = self.bank.gap.place(next / LINE_BYTES);
            let address = self.first + LINES_AT + place * LINE_BYTES + next % LINE_BYTES;
            match runs.last_mut() {
                Some((start, length)) if *start + *length == address => *length += count,
                _ => runs.push((address, count)),
            }
            next += count;
        }
        runs
    }

    /// Occupies the bank for a time. Returns when the work begins and ends.
    fn occupy(&mut self, accesses: u64, latency_ns: u64, bytes: u64) -> (Nanoseconds, Nanoseconds) {
        let start_ns = self.memory.now_ns().max(self.bank.free_ns);
        let rate = u128::from(self.banks.memory.bytes_per_second);
        let transfer_ns = (u128::from(bytes) * 1_000_000_000).div_ceil(rate) as Nanoseconds;
        let end_ns = start_ns + accesses * latency_ns + transfer_ns;
        self.bank.free_ns = end_ns;
        self.counters.busy_ns += end_ns - start_ns;
        (start_ns, end_ns)
    }

    fn load_words(&mut self, at: u64, data: &mut [u8]) -> Result<Nanoseconds, Status> {
        let runs = self.runs(at, data.len() as u64);
        let mut rest = &mut data[..];
        for &(address, bytes) in &runs {
            let (now, later) = rest.split_at_mut(bytes as usize);
            self.memory.load(address, now)?;
            rest = later;
        }
        self.counters.bytes_loaded += data.len() as u64;
        Ok(self.occupy(runs.len() as u64, self.banks.memory.load_ns, data.len() as u64).1)
    }

    /// Stores whole words. When power fails, each word in flight has been stored or not.
    fn store_words(&mut self, parts: &[Part<'_>]) -> Result<Nanoseconds, Status> {
        let (mut placed, mut bytes, mut lines) = (Vec::new(), 0, 0);
        for &(at, data) in parts {
            let mut rest = data;
            for (address, count) in self.runs(at, data.len() as u64) {
                let (now, later) = rest.split_at(count as usize);
                placed.push((address, now));
                rest = later;
            }
            bytes += data.len() as u64;
            lines += (at + data.len() as u64).div_ceil(LINE_BYTES) - at / LINE_BYTES;
        }
        let (start_ns, end_ns) = self.occupy(placed.len() as u64, self.banks.memory.store_ns, bytes);
        self.counters.bytes_stored += bytes;
        self.memory.store(&placed, start_ns, end_ns)?;
        self.bank.stores += lines as u32;
        Ok(end_ns)
    }

    // -- start-gap ----------------------------------------------------------------------------------------------

    /// Moves the lines that are due.
    fn level(&mut self) -> Result<(), Status> {
        while self.bank.stores >= self.banks.memory.gap_stores {
            self.bank.stores -= self.banks.memory.gap_stores;
            let (from, to) = self.bank.gap.next_move();
            let address = |place| self.first + LINES_AT + place * LINE_BYTES;
            let (from, to, mut line) = (address(from), address(to), [0; LINE_BYTES as usize]);
            self.memory.load(from, &mut line)?;
            self.occupy(1, self.banks.memory.load_ns, LINE_BYTES);
            let (start_ns, end_ns) = self.occupy(1, self.banks.memory.store_ns, LINE_BYTES);
            self.memory.store(&[(to, &line)], start_ns, end_ns)?;
            let gap = self.bank.gap.moved();
            let (start_ns, end_ns) = self.occupy(1, self.banks.memory.store_ns, WORD_BYTES);
            let word = gap.moves().to_le_bytes();
            self.memory.store(&[(self.first, &word)], start_ns, end_ns)?;
            self.bank.gap = gap;
            self.counters.bytes_stored += LINE_BYTES + WORD_BYTES;
            self.counters.lines_moved += 1;
        }
        Ok(())
    }

    /// When the bank has done everything submitted to it.
    pub fn free_ns(&self) -> Nanoseconds {
        self.bank.free_ns
    }

    // -- any bytes ----------------------------------------------------------------------------------------------

    /// Loads any bytes, and returns when they are there.
    pub fn load(&mut self, at: u64, data: &mut [u8]) -> Result<Nanoseconds, Status> {
        let words = words_of(at, data.len() as u64);
        let mut bytes = vec![0; (words.1 - words.0) as usize];
        let done_ns = self.load_words(words.0, &mut bytes)?;
        data.copy_from_slice(&bytes[(at - words.0) as usize..][..data.len()]);
        Ok(done_ns)
    }

    /// Stores all parts or none, and returns when they are durable.
    pub fn store(&mut self, parts: &[Part<'_>]) -> Result<Nanoseconds, Status> {
        let whole = self.widened(parts)?;
        let whole: Vec<Part<'_>> = whole.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
        if let [(_, bytes)] = whole[..]
            && bytes.len() as u64 == WORD_BYTES
        {
            let done_ns = self.store_words(&whole)?;
            self.level()?;
            return Ok(done_ns);
        }
        let mut body = Vec::new();
        for (at, bytes) in &whole {
            body.extend(at.to_le_bytes());
            body.extend((bytes.len() as u64).to_le_bytes());
            body.extend(*bytes);
        }
        assert!(BODY_AT + body.len() as u64 <= LOG_BYTES, "{} bytes do not fit into the log", body.len());
        self.store_words(&[(BODY_AT, &body)])?;
        let length = body.len() as u64;
        let done_ns = self.store_words(&[(0, &length.to_le_bytes())])?;
        self.store_words(&whole)?;
        self.store_words(&[(0, &0_u64.to_le_bytes())])?;
        self.level()?;
        Ok(done_ns)
    }

    /// The parts as whole words, in order; parts that touch each other are merged.
    fn widened(&mut self, parts: &[Part<'_>]) -> Result<Vec<(u64, Vec<u8>)>, Status> {
        let mut ranges: Vec<(u64, u64)> =
            parts.iter().map(|(at, bytes)| words_of(*at, bytes.len() as u64)).collect();
        ranges.sort_unstable();
        let mut whole: Vec<(u64, Vec<u8>)> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match whole.last_mut() {
                Some((at, bytes)) if start <= *at + bytes.len() as u64 => {
                    let length = bytes.len().max((end - *at) as usize);
                    bytes.resize(length, 0);
                }
                _ => whole.push((start, vec![0; (end - start) as usize])),
            }
        }
        debug_assert!(
            whole.windows(2).all(|two| two[0].0 + (two[0].1.len() as u64) < two[1].0),
            "parts are not in order, or touch each other: {:?}",
            whole.iter().map(|(at, bytes)| (at, bytes.len())).collect::<Vec<_>>()
        );
        // words that a part covers only partly, at its beginning or end
        for &(part, data) in parts {
            let end = part + data.len() as u64;
            for at in [part, end].into_iter().filter(|at| at % WORD_BYTES != 0) {
                let mut word = [0; WORD_BYTES as usize];
                let at = at - at % WORD_BYTES;
                self.load_words(at, &mut word)?;
                place_in(&mut whole, at)[..word.len()].copy_from_slice(&word);
            }
        }
        for &(part, data) in parts {
            place_in(&mut whole, part)[..data.len()].copy_from_slice(data);
        }
        Ok(whole)
    }

    /// Replays the log, if a cut left one. Power may be lost again meanwhile.
    fn recover(&mut self) -> Result<(), Status> {
        let mut length = [0; WORD_BYTES as usize];
        self.load_words(0, &mut length)?;
        let length = u64::from_le_bytes(length);
        if length == 0 {
            return Ok(());
        }
        let damaged = || Status::InvalidField(format!("a log of {length} bytes in the processors' memory"));
        if length > LOG_BYTES - BODY_AT || !length.is_multiple_of(WORD_BYTES) {
            return Err(damaged());
        }
        let mut body = vec![0; length as usize];
        self.load_words(BODY_AT, &mut body)?;
        let (mut parts, mut rest) = (Vec::new(), &body[..]);
        while let Some((head, after)) = rest.split_at_checked(16) {
            let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
            let (at, bytes) = (number(0), number(8));
            let end = at.checked_add(bytes).ok_or_else(damaged)?;
            if bytes > after.len() as u64
                || end > self.banks.lines() * LINE_BYTES
                || !(at | bytes).is_multiple_of(WORD_BYTES)
            {
                return Err(damaged());
            }
            let (data, later) = after.split_at(bytes as usize);
            parts.push((at, data));
            rest = later;
        }
        self.store_words(&parts)?;
        self.store_words(&[(0, &0_u64.to_le_bytes())])?;
        Ok(())
    }
}

/// The bytes that start at `at`, in the part that has them.
fn place_in(whole: &mut [(u64, Vec<u8>)], at: u64) -> &mut [u8] {
    let part = whole.partition_point(|(start, _)| *start <= at) - 1;
    let (start, bytes) = &mut whole[part];
    &mut bytes[(at - *start) as usize..]
}

/// The words that a range touches.
fn words_of(at: u64, bytes: u64) -> (u64, u64) {
    (at - at % WORD_BYTES, (at + bytes).next_multiple_of(WORD_BYTES))
}
