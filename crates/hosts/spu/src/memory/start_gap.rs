//! Start-gap wear levelling (Qureshi et al., MICRO 2009; the thesis's memory controller has it, section 5.2).
//!
//! `n` lines of data lie in `n + 1` places. One place is the gap. A move copies the line before the gap into it; the gap is
//! then one place lower. After `n + 1` moves each line is one place further along. So the stores to a hot line are spread
//! over all places.
//!
//! The number of moves says where everything is. It is one word, so a move happens when that word is stored.

/// Bytes of a line: those of the paper.
pub(super) const LINE_BYTES: u64 = 256;

/// Where the lines of a bank are.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartGap {
    lines: u64,
    moves: u64,
}

impl StartGap {
    /// A bank of `lines` lines after `moves` moves.
    pub fn new(lines: u64, moves: u64) -> StartGap {
        StartGap { lines, moves: moves % (lines * (lines + 1)) }
    }

    /// Moves so far, modulo the number after which everything is back in its place.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    fn gap(&self) -> u64 {
        self.lines - self.moves % (self.lines + 1)
    }

    /// The place of a line.
    pub fn place(&self, line: u64) -> u64 {
        debug_assert!(line < self.lines, "line {line} of {}", self.lines);
        let start = self.moves / (self.lines + 1);
        let place = (line + start) % self.lines;
        if place >= self.gap() { place + 1 } else { place }
    }

    /// The next move: from which place to which.
    pub fn next_move(&self) -> (u64, u64) {
        let gap = self.gap();
        (if gap == 0 { self.lines } else { gap - 1 }, gap)
    }

    /// The mapping after the next move.
    pub fn moved(&self) -> StartGap {
        let after = StartGap::new(self.lines, self.moves + 1);
        let (from, gap) = (self.next_move().0, after.gap());
        debug_assert!(from == gap, "the line at {from} was moved, but the gap is {gap}");
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_keeps_its_contents_while_lines_move() {
        for lines in [1, 2, 3, 7, 16] {
            let mut gap = StartGap::new(lines, 0);
            let mut places: Vec<Option<u64>> = vec![None; lines as usize + 1];
            (0..lines).for_each(|line| places[gap.place(line) as usize] = Some(line));
            for _ in 0..2 * lines * (lines + 1) {
                let (from, to) = gap.next_move();
                places[to as usize] = places[from as usize];
                gap = gap.moved();
                for line in 0..lines {
                    assert_eq!(places[gap.place(line) as usize], Some(line), "{gap:?}");
                }
            }
            assert_eq!(gap.moves(), 0, "everything is where it was");
        }
    }

    /// The reason for start-gap: without it, one place would take all these stores.
    #[test]
    fn stores_to_one_line_are_spread_over_all_places() {
        const LINES: u64 = 64;
        const GAP_STORES: u64 = 10;
        let mut gap = StartGap::new(LINES, 0);
        let mut stores = [0_u64; LINES as usize + 1];
        let all = LINES * (LINES + 1) * GAP_STORES;
        for store in 1..=all {
            stores[gap.place(5) as usize] += 1;
            if store % GAP_STORES == 0 {
                stores[gap.next_move().1 as usize] += 1;
                gap = gap.moved();
            }
        }
        let mean = stores.iter().sum::<u64>() / (LINES + 1);
        assert!(stores.iter().all(|stores| *stores < 2 * mean), "{stores:?}");
        assert!(stores.iter().all(|stores| *stores > mean / 2), "{stores:?}");
    }
}
