//! Lists of files compared with a model in memory, with power cut at random operations.

use tantalum_nand::{NvmShape, Outcome, SplitMix64};

use super::*;
use crate::test_support::{GEOMETRY, TIMING};

const PLAN: ListsPlan = ListsPlan { at: 64, files: 3, units: 24 };
const SHAPE: NvmShape = NvmShape { bytes: 1024, latency_ns: 100, bytes_per_second: 1_000_000_000 };

type Model = BTreeMap<FileId, Vec<FileEntry>>;

fn nand() -> Nand {
    Nand::in_memory(GEOMETRY, TIMING).unwrap().with_nvm(SHAPE).unwrap()
}

fn all(lists: &FileLists) -> Model {
    lists.files().map(|file| (file, lists.list(file).collect())).collect()
}

fn append(model: &mut Model, file: FileId, first: u32, units: u32, offset: u32) {
    unlink(model, first..first + units);
    let entries = (0..units).map(|unit| FileEntry { lpn: Lpn(first + unit), offset: offset + unit });
    model.entry(file).or_default().extend(entries);
}

fn unlink(model: &mut Model, units: std::ops::Range<u32>) {
    model.values_mut().for_each(|list| list.retain(|entry| !units.contains(&entry.lpn.0)));
    model.retain(|_, list| !list.is_empty());
}

/// Whether `found` is `whole` without some of the entries of these units.
fn lacks_some(found: &Model, whole: &Model, units: &std::ops::Range<u32>) -> bool {
    let lists = whole.iter().all(|(file, list)| {
        let mut left = found.get(file).map_or(&[][..], |list| list).iter();
        let mut next = left.next();
        let told = list.iter().all(|entry| {
            let is_next = next == Some(entry);
            if is_next {
                next = left.next();
            }
            is_next || units.contains(&entry.lpn.0)
        });
        told && next.is_none()
    });
    lists && found.keys().all(|file| whole.contains_key(file))
}

#[test]
fn what_is_appended_is_found_in_order_and_again_after_reading() {
    let mut nand = nand();
    let mut lists = FileLists::empty(PLAN);
    let (a, b) = (FileId(7), FileId(u32::MAX));
    lists.append(&mut nand, a, Lpn(3), 2, 10, 0).unwrap();
    lists.append(&mut nand, b, Lpn(20), 4, u32::MAX - 4, 0).unwrap();
    lists.append(&mut nand, a, Lpn(0), 1, 0, 0).unwrap();
    // a unit in the middle, and one of another file, go to the end
    lists.append(&mut nand, a, Lpn(4), 1, 99, 0).unwrap();
    lists.append(&mut nand, a, Lpn(20), 1, 100, 0).unwrap();
    let offsets: Vec<(u32, u32)> = lists.list(a).map(|entry| (entry.lpn.0, entry.offset)).collect();
    assert_eq!(offsets, [(3, 10), (0, 0), (4, 99), (20, 100)]);
    assert_eq!(lists.list(b).map(|entry| entry.lpn.0).collect::<Vec<_>>(), [21, 22, 23]);
    let (read, _) = FileLists::read(&mut nand, PLAN, 0).unwrap();
    assert_eq!(all(&read), all(&lists));
    assert_eq!((read.units(), lists.units()), (7, 7));
}

#[test]
fn a_full_table_refuses_until_a_list_is_cleared() {
    let mut nand = nand();
    let mut lists = FileLists::empty(PLAN);
    for file in 1..=3 {
        lists.append(&mut nand, FileId(file), Lpn(file), 1, 0, 0).unwrap();
    }
    assert_eq!(lists.check(FileId(4), 0, 1), Err(ListRefusal::TooManyFiles { limit: 3 }));
    assert_eq!(lists.check(FileId(2), 5, 1), Ok(()));
    assert_eq!(lists.check(FileId(0), 0, 1), Err(ListRefusal::NoFile));
    assert!(matches!(lists.check(FileId(2), u32::MAX, 1), Err(ListRefusal::Offset { .. })));
    lists.clear(&mut nand, FileId(1), 0).unwrap();
    assert_eq!(lists.check(FileId(4), 0, 1), Ok(()));
    lists.clear_all(&mut nand, 0).unwrap();
    assert!(all(&lists).is_empty());
    assert!(all(&FileLists::read(&mut nand, PLAN, 0).unwrap().0).is_empty());
}

#[test]
fn tables_that_no_drive_wrote_are_refused() {
    for (unit, entry) in [(3, word(0, 3)), (3, word(0, 99)), (0, word(5, 3))] {
        let mut nand = nand();
        let mut lists = FileLists::empty(PLAN);
        lists.append(&mut nand, FileId(1), Lpn(0), 1, 0, 0).unwrap();
        lists.append(&mut nand, FileId(2), Lpn(3), 1, 0, 0).unwrap();
        nand.nvm_store(&[(PLAN.unit_at(unit), &entry.to_le_bytes())], 0).unwrap();
        let read = FileLists::read(&mut nand, PLAN, 0);
        assert!(matches!(read, Err(FtlError::Damaged(Damage::FileList { .. }))), "unit {unit}");
    }
}

/// Power fails in any store of random commands, and again during recovery: the lists are as after a prefix of the
/// commands that includes all completed ones.
#[test]
fn lists_survive_cuts_up_to_what_was_done() {
    let (mut partly_unlinked, mut cleared) = (0, 0);
    for seed in 0..3000 {
        let mut random = SplitMix64(seed);
        let mut draw = |limit: u32| (random.next_u64() % u64::from(limit)) as u32;
        let (mut nand, mut lists, mut model) = (nand(), FileLists::empty(PLAN), Model::new());
        let cut_after = 1 + draw(40);
        nand.cut_after(Some(cut_after.into()));
        let (after, units) = loop {
            let (file, first) = (FileId(1 + draw(4)), draw(22));
            let (units, offset, kind) = (1 + draw(3).min(23 - first), draw(1000), draw(12));
            if lists.check(file, offset, units).is_err() && kind > 1 {
                continue;
            }
            let mut after = model.clone();
            let done = match kind {
                0 => {
                    after.clear();
                    lists.clear_all(&mut nand, 0)
                }
                1 => {
                    after.remove(&file);
                    lists.clear(&mut nand, file, 0)
                }
                _ => {
                    append(&mut after, file, first, units, offset);
                    lists.append(&mut nand, file, Lpn(first), units, offset, 0)
                }
            };
            if done.is_err() {
                cleared += u32::from(kind < 2);
                break (after, if kind < 2 { 0..0 } else { first..first + units });
            }
            model = after;
        };
        let mut random = SplitMix64(seed);
        let mut resolve = |nand: &mut Nand| {
            let outcome = [Outcome::NotStarted, Outcome::Torn, Outcome::Torn, Outcome::Completed]
                [(random.next_u64() % 4) as usize];
            nand.resolve(&mut |_| outcome, &mut || random.next_u64()).unwrap();
        };
        resolve(&mut nand);
        nand.cut_after(Some(1));
        let read = match FileLists::read(&mut nand, PLAN, 0) {
            Ok((read, _)) => read,
            Err(_) => {
                resolve(&mut nand);
                nand.cut_after(None);
                FileLists::read(&mut nand, PLAN, 0).unwrap().0
            }
        };
        let found = all(&read);
        let is_before = lacks_some(&found, &model, &units);
        partly_unlinked += u32::from(is_before && found != model);
        assert!(found == after || is_before, "seed {seed}: {found:?} after {model:?}, or {after:?}");
        // what recovery finished stays finished
        nand.cut_after(None);
        let again = all(&FileLists::read(&mut nand, PLAN, 0).unwrap().0);
        assert!(again == found, "seed {seed}: {again:?} after {found:?}");
    }
    assert!(partly_unlinked > 20 && cleared > 100, "{partly_unlinked} {cleared}");
}
