//! Which block is collected next.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tantalum_nand::BlockId;

use super::blocks::Blocks;
use crate::map::Map;
use crate::types::Seq;

/// Blocks looked at for each one that is chosen at random, before all are searched: nearly all of a drive's blocks may be
/// collected when it collects.
const LOOKS: u64 = 64;

/// How garbage collection chooses a victim among the closed blocks that hold garbage. Whatever it chooses, what it moves has no
/// garbage any more, so that after as many victims as there are blocks all garbage is gone. Profiles have the names in brackets.
/// Power cuts were tested with `greedy` and `cost-benefit` only: with `random`, one brought back an older unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum VictimPolicy {
    /// Fewest valid units (`greedy`).
    Greedy,
    /// Most space freed for the work, older blocks first (`cost-benefit`).
    CostBenefit,
    /// Any block (`random`).
    Random,
    /// The block that was filled first (`fifo`).
    Fifo,
    /// The one with the fewest valid units of this many random blocks (`d-choices(10)`); at least 1.
    DChoices(u32),
}

impl VictimPolicy {
    /// What profiles may say.
    const NAMES: &str = "`greedy`, `cost-benefit`, `random`, `fifo` or `d-choices(N)`";
}

impl Display for VictimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VictimPolicy::Greedy => f.write_str("greedy"),
            VictimPolicy::CostBenefit => f.write_str("cost-benefit"),
            VictimPolicy::Random => f.write_str("random"),
            VictimPolicy::Fifo => f.write_str("fifo"),
            VictimPolicy::DChoices(blocks) => write!(f, "d-choices({blocks})"),
        }
    }
}

impl FromStr for VictimPolicy {
    type Err = String;

    fn from_str(name: &str) -> Result<VictimPolicy, String> {
        let choices = name.strip_prefix("d-choices(").and_then(|rest| rest.strip_suffix(')'));
        match (name, choices.map(str::parse)) {
            ("greedy", _) => Ok(VictimPolicy::Greedy),
            ("cost-benefit", _) => Ok(VictimPolicy::CostBenefit),
            ("random", _) => Ok(VictimPolicy::Random),
            ("fifo", _) => Ok(VictimPolicy::Fifo),
            (_, Some(Ok(blocks))) if blocks >= 1 => Ok(VictimPolicy::DChoices(blocks)),
            _ => Err(format!("unknown policy `{name}`, expected {}", VictimPolicy::NAMES)),
        }
    }
}

impl TryFrom<String> for VictimPolicy {
    type Error = String;

    fn try_from(name: String) -> Result<VictimPolicy, String> {
        name.parse()
    }
}

impl From<VictimPolicy> for String {
    fn from(policy: VictimPolicy) -> String {
        policy.to_string()
    }
}

/// The block to collect next. `now` is the last step; what is random follows from it, so the same run chooses the same blocks.
pub(super) fn choose(
    policy: VictimPolicy,
    blocks: &Blocks,
    units_per_block: u32,
    map: &mut Map,
    now: Seq,
) -> Option<BlockId> {
    match policy {
        VictimPolicy::Greedy => map.fewest_valid(),
        VictimPolicy::CostBenefit => {
            let map = &*map;
            let benefit = |block: &BlockId| blocks.benefit(*block, map.valid(*block), units_per_block, now);
            map.candidates().max_by_key(benefit)
        }
        VictimPolicy::Fifo => map.candidates().min_by_key(|block| blocks.last_step(*block)),
        VictimPolicy::Random => fewest_of(1, blocks.count(), units_per_block, map, now),
        VictimPolicy::DChoices(choices) => fewest_of(choices, blocks.count(), units_per_block, map, now),
    }
}

/// The block with the fewest valid units of this many random candidates, of which one may be drawn more than once.
fn fewest_of(choices: u32, blocks: u32, units_per_block: u32, map: &Map, now: Seq) -> Option<BlockId> {
    let looks = LOOKS * u64::from(choices);
    let drawn =
        (0..looks).map(|look| BlockId((mixed(now.0 ^ look.rotate_left(32)) % u64::from(blocks)) as u32));
    drawn
        .filter(|block| map.is_candidate(*block) && map.valid(*block) < units_per_block)
        .take(choices as usize)
        .min_by_key(|block| map.valid(*block))
        .or_else(|| map.candidates().next())
}

/// A number that looks random (the finalizer of SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let policies = [
            VictimPolicy::Greedy,
            VictimPolicy::CostBenefit,
            VictimPolicy::Random,
            VictimPolicy::Fifo,
            VictimPolicy::DChoices(10),
        ];
        for policy in policies {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for wrong in ["lazy", "d-choices", "d-choices()", "d-choices(0)", "d-choices(-1)", "d-choices(3", ""]
        {
            let error = wrong.parse::<VictimPolicy>().unwrap_err();
            assert!(error.contains(wrong) && error.contains("d-choices(N)"), "{error}");
        }
    }
}
