//! The commands, as plain data that is drawn from a seed.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::model::{Effect, HOT, LOG, Model, Name};

/// A command.
#[derive(Clone, Debug)]
pub enum Op {
    Write { lpn: u32, units: u32, stamp: u32, fua: bool },
    Trim { lpn: u32, units: u32, zeroes: bool },
    Flush,
    Share { ranges: Vec<(u32, u32)>, deferred: bool },
    Remap { src: u32, dst: u32, units: u32 },
    Batch { units: BTreeMap<u32, u32>, records: BTreeMap<Name, u32> },
    Put { records: BTreeMap<Name, u32> },
    Delete { name: Name },
    Begin,
    TxWrite { lpn: u32, stamp: u32 },
    Commit,
    Abort,
    BeginLog,
    Hinted { stamp: u32, home: u32 },
    Create { index: usize },
    DeleteNamespace { index: usize },
    FsWrite { lpn: u32, units: u32, stamp: u32, file: u32, offset: u32 },
    ClearLists { file: Option<u32> },
    Read { lpn: u32, units: u32 },
    Get { name: Name },
    List { index: usize },
}

/// Bytes of the value that a record has with this stamp.
pub fn value_bytes(stamp: u32) -> usize {
    [60, 900, 3_000, 9_000][stamp as usize % 4]
}

fn distinct(random: &mut Xoshiro256PlusPlus, most: usize, limit: u32) -> BTreeSet<u32> {
    (0..random.random_range(1..=most)).map(|_| random.random_range(0..limit)).collect()
}

impl Op {
    /// Draws a command that the drive would accept.
    pub fn draw(random: &mut Xoshiro256PlusPlus, model: &Model, stamp: &mut u32, has_lists: bool) -> Op {
        loop {
            *stamp += 1;
            if let Some(op) = Op::try_draw(random, model, *stamp, has_lists) {
                return op;
            }
        }
    }

    fn try_draw(random: &mut Xoshiro256PlusPlus, model: &Model, stamp: u32, has_lists: bool) -> Option<Op> {
        let lpn = random.random_range(0..HOT - 4);
        let units = random.random_range(1..4);
        let names = |random: &mut Xoshiro256PlusPlus| -> BTreeMap<Name, u32> {
            let keys = distinct(random, 4, 24);
            let named = keys.into_iter().map(|key| (((key % 3) as usize, key as u8), stamp));
            named.filter(|(name, _)| model.namespaces[name.0].is_some()).collect()
        };
        Some(match random.random_range(0..100) {
            0..16 => Op::Write { lpn, units, stamp, fua: random.random_bool(0.3) },
            16..24 => Op::Trim { lpn, units, zeroes: random.random_bool(0.3) },
            24..30 => Op::Flush,
            30..40 => {
                let ranges: Vec<(u32, u32)> = distinct(random, 4, HOT / 2)
                    .into_iter()
                    .map(|dst| (dst, HOT / 2 + (dst * 7 + stamp) % (HOT / 2)))
                    .filter(|(_, src)| model.unit(*src) != 0)
                    .collect();
                if ranges.is_empty() {
                    return None;
                }
                Op::Share { ranges, deferred: random.random_bool(0.3) }
            }
            40..45 => {
                let (src, dst) = (HOT / 2 + lpn % 24, lpn % 24);
                if (src..src + units).any(|lpn| model.unit(lpn) == 0) {
                    return None;
                }
                Op::Remap { src, dst, units }
            }
            45..54 => {
                let units = distinct(random, 7, HOT).into_iter().map(|lpn| (lpn, stamp)).collect();
                let mut records = if random.random_bool(0.5) { names(random) } else { BTreeMap::new() };
                for (&name, stamp) in &mut records {
                    if model.record(name) != 0 && random.random_bool(0.3) {
                        *stamp = 0;
                    }
                }
                Op::Batch { units, records }
            }
            54..62 => match names(random) {
                records if records.is_empty() => return None,
                records => Op::Put { records },
            },
            62..65 => {
                let (&name, _) = model.records.iter().find(|(name, record)| {
                    record.now != 0 && model.namespaces[name.0].is_some() && random.random_bool(0.2)
                })?;
                Op::Delete { name }
            }
            65..77 => match &model.tx {
                None => Op::Begin,
                Some(_) => match random.random_range(0..10) {
                    0..6 => Op::TxWrite { lpn, stamp },
                    6..9 => Op::Commit,
                    _ => Op::Abort,
                },
            },
            77..85 => match model.log {
                None => Op::BeginLog,
                Some((_, slot)) if slot >= LOG.end - LOG.start => Op::BeginLog,
                Some(_) => Op::Hinted { stamp, home: random.random_range(0..LOG.start) },
            },
            85..88 => match model.namespaces[2] {
                None => Op::Create { index: 2 },
                Some(_) => Op::DeleteNamespace { index: 2 },
            },
            88..94 if has_lists => match random.random_range(0..6) {
                0 => Op::ClearLists { file: None },
                1 => Op::ClearLists { file: Some(random.random_range(1..4)) },
                _ => Op::FsWrite { lpn, units, stamp, file: random.random_range(1..4), offset: stamp },
            },
            94..96 => Op::Read { lpn, units },
            96..98 => Op::Get { name: (0, 3 * random.random_range(0..8)) },
            98.. => Op::List { index: random.random_range(0..2) },
            _ => return None,
        })
    }

    /// What it changes.
    pub fn effect(&self, model: &Model) -> Effect {
        let durable = model.durable_writes;
        match self {
            Op::Write { lpn, units, stamp, fua } => Effect {
                units: (*lpn..lpn + units).map(|lpn| (lpn, *stamp)).collect(),
                durable: durable || *fua,
                ..Effect::default()
            },
            Op::Trim { lpn, units, .. } => Effect {
                units: (*lpn..lpn + units).map(|lpn| (lpn, 0)).collect(),
                durable: model.protected,
                atomic: true,
                ..Effect::default()
            },
            Op::Flush => Effect { flushes: true, ..Effect::default() },
            Op::Share { ranges, deferred } => Effect {
                units: ranges.iter().map(|(dst, src)| (*dst, model.unit(*src))).collect(),
                durable: !deferred || model.protected,
                atomic: true,
                ..Effect::default()
            },
            Op::Remap { src, dst, units } => {
                let moved = (0..*units).map(|unit| (dst + unit, model.unit(src + unit)));
                let units = moved.chain((0..*units).map(|unit| (src + unit, 0))).collect();
                Effect { units, durable: true, atomic: true, ..Effect::default() }
            }
            Op::Batch { units, records } => Effect {
                units: units.clone(),
                records: records.clone(),
                durable: true,
                atomic: true,
                ..Effect::default()
            },
            Op::Put { records } => {
                Effect { records: records.clone(), durable: true, atomic: true, ..Effect::default() }
            }
            Op::Delete { name } => Effect {
                records: BTreeMap::from([(*name, 0)]),
                durable: true,
                atomic: true,
                ..Effect::default()
            },
            Op::Commit => {
                let (_, pages) = model.tx.as_ref().expect("one is open");
                Effect { units: pages.clone(), durable: true, atomic: true, ..Effect::default() }
            }
            Op::Hinted { stamp, home } => {
                let (_, slot) = model.log.expect("one is open");
                let units = BTreeMap::from([(LOG.start + slot, *stamp)]);
                Effect { units, durable, claims: Some(*home), ..Effect::default() }
            }
            Op::FsWrite { lpn, units, stamp, file, offset } => {
                let mut lists = model.lists.clone();
                lists
                    .values_mut()
                    .for_each(|list| list.retain(|(unit, _)| !(*lpn..lpn + units).contains(unit)));
                lists.entry(*file).or_default().extend((0..*units).map(|unit| (lpn + unit, offset + unit)));
                let units = (*lpn..lpn + units).map(|lpn| (lpn, *stamp)).collect();
                Effect { units, durable: true, lists: Some(lists), ..Effect::default() }
            }
            Op::ClearLists { file } => {
                let mut lists = model.lists.clone();
                lists.retain(|other, _| file.is_some_and(|file| file != *other));
                Effect { lists: Some(lists), ..Effect::default() }
            }
            Op::DeleteNamespace { index } => {
                let of_it = model.records.keys().filter(|name| name.0 == *index);
                Effect { records: of_it.map(|name| (*name, 0)).collect(), durable: true, ..Effect::default() }
            }
            _ => Effect::default(),
        }
    }
}
