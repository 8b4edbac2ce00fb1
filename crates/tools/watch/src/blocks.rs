//! The blocks as sent to the page: all of them once, then those that changed.

use serde::Serialize;
use tantalum_control::BLOCK_CHARACTERS;

/// Blocks for the page, as [`tantalum_control::Look::blocks`] has them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// Every block.
    All(String),
    /// Numbers of blocks, and the blocks in the same order.
    Changed(Vec<u32>, String),
}

/// The blocks that changed; all of them if many did.
pub fn changes(before: &str, now: &str) -> Blocks {
    if before.len() != now.len() {
        return Blocks::All(now.to_owned());
    }
    let (mut numbers, mut changed) = (Vec::new(), Vec::new());
    for (number, (was, is)) in each(before).zip(each(now)).enumerate() {
        if was != is {
            numbers.push(number as u32);
            changed.extend_from_slice(is);
        }
    }
    // a number takes about as much as a block
    match changed.len() * 2 > now.len() {
        true => Blocks::All(now.to_owned()),
        false => Blocks::Changed(numbers, String::from_utf8_lossy(&changed).into_owned()),
    }
}

fn each(blocks: &str) -> impl Iterator<Item = &[u8]> {
    blocks.as_bytes().chunks_exact(BLOCK_CHARACTERS)
}

/// The number of blocks with this use.
pub fn count(blocks: &str, used: u8) -> usize {
    each(blocks).filter(|block| block[0] == used).count()
}

/// Erases of blocks that are not retired.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Wear {
    /// Erases of the least-worn block.
    pub least: u32,
    /// The mean.
    pub mean: f64,
    /// Erases of the most-worn block.
    pub most: u32,
}

/// How worn the blocks are.
pub fn wear(blocks: &str) -> Wear {
    let erases = || each(blocks).filter(|block| block[0] != b'b').map(|block| number(&block[2..]));
    let count = erases().count();
    Wear {
        least: erases().min().unwrap_or(0),
        mean: erases().map(f64::from).sum::<f64>() / count.max(1) as f64,
        most: erases().max().unwrap_or(0),
    }
}

/// A number in base 64.
fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'Z' => digit - b'A' + 10,
            b'a'..=b'z' => digit - b'a' + 36,
            b'-' => 62,
            _ => 63,
        };
        number * 64 + u32::from(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_blocks_are_sent_unless_most_have_changed() {
        let before = "f0000c1001o2000f0000";
        assert_eq!(changes(before, before), Blocks::Changed(vec![], String::new()));
        assert_eq!(changes(before, "f0000c1001o3000f0000"), Blocks::Changed(vec![2], "o3000".to_owned()));
        let all = "f0001c1002o3000f0001";
        assert_eq!(changes(before, all), Blocks::All(all.to_owned()));
        assert_eq!(changes("", before), Blocks::All(before.to_owned()));
        assert_eq!(changes(before, ""), Blocks::All(String::new()));
    }

    #[test]
    fn wear_is_that_of_good_blocks() {
        let wear_of = wear("c_10_f0001b0___o000Z");
        assert_eq!(wear_of, Wear { least: 1, mean: (4159.0 + 1.0 + 35.0) / 3.0, most: 64 * 64 + 63 });
        assert_eq!(number(b"00a"), 36);
        assert_eq!(wear(""), Wear::default());
    }

    #[test]
    fn blocks_are_counted_by_their_use() {
        let blocks = "f0000c1001offfffff00";
        assert_eq!([b'f', b'c', b'o', b'b'].map(|used| count(blocks, used)), [2, 1, 1, 0]);
    }
}
