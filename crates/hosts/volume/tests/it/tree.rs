//! Folders, links, renames, and files without names.

use crate::common;

use common::*;
use tantalum_volume::{
    FileId, FileKind, MetadataChange, NewFile, RenameMode, SetMode, Timestamp, Volume, VolumeError,
};

const ROOT: FileId = FileId::ROOT;

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 5 }
}

fn new(kind: FileKind, seconds: i64) -> NewFile {
    NewFile { kind, permissions: 0o640, owner: 7, group: 8, device_number: 0, now: at(seconds) }
}

fn folder(volume: &mut Volume, parent: FileId, name: &str) -> FileId {
    volume.create_in(parent, name.as_bytes(), &new(FileKind::Folder, 1)).unwrap()
}

fn file(volume: &mut Volume, parent: FileId, name: &str, data: &[u8]) -> FileId {
    let file = volume.create_in(parent, name.as_bytes(), &new(FileKind::File, 1)).unwrap();
    volume.write(file, 0, data).unwrap();
    file
}

fn rename(
    volume: &mut Volume,
    from: (FileId, &str),
    to: (FileId, &str),
    mode: RenameMode,
) -> Result<(), VolumeError> {
    volume.rename_in(from.0, from.1.as_bytes(), to.0, to.1.as_bytes(), mode, at(9))
}

fn list(volume: &Volume, folder: FileId) -> Vec<String> {
    let entries = volume.read_folder(folder, 0).unwrap();
    let mut names: Vec<String> = entries.map(|e| String::from_utf8_lossy(e.name).into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_tree_survives_a_remount_with_all_that_is_known_of_its_files() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    let b = folder(&mut volume, a, "b");
    let c = file(&mut volume, b, "c", b"content");
    let link = volume.create_symbolic_link(b, b"link", b"../c", &new(FileKind::SymbolicLink, 3)).unwrap();
    let device = NewFile { device_number: 77, ..new(FileKind::CharDevice, 4) };
    let device = volume.create_in(a, b"null", &device).unwrap();
    let change = MetadataChange {
        permissions: Some(0o4711),
        owner: Some(1),
        modified: Some(at(-5)),
        ..MetadataChange::default()
    };
    volume.change_metadata(c, &change).unwrap();
    let files = [ROOT, a, b, c, link, device];
    let before = files.map(|file| volume.metadata(file).unwrap());
    let mut volume = remount(volume, LARGE_CACHE);
    assert_eq!(files.map(|file| volume.metadata(file).unwrap()), before);
    assert_eq!(before.map(|metadata| metadata.links), [3, 3, 2, 1, 1, 1]);
    let found = volume.lookup(volume.lookup(a, b"b").unwrap(), b"c").unwrap();
    assert_eq!(content(&mut volume, found), b"content");
    assert_eq!(volume.read_symbolic_link(link).unwrap(), b"../c");
    assert_eq!(volume.parent(b), Ok(a));
    assert_eq!((before[3].permissions, before[3].owner, before[3].group), (0o4711, 1, 8));
    assert_eq!(before[5].device_number, 77);
}

#[test]
fn a_crash_after_names_were_synced_leaves_the_tree_without_unsynced_content() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    let b = file(&mut volume, a, "b", b"never synced");
    volume.create_symbolic_link(a, b"link", b"target", &new(FileKind::SymbolicLink, 3)).unwrap();
    volume.sync(a).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(list(&volume, a), ["b", "link"]);
    assert_eq!(content(&mut volume, b), b"");
    assert_eq!(volume.metadata(b).unwrap().permissions, 0o640);
    let link = volume.lookup(a, b"link").unwrap();
    assert_eq!(volume.read_symbolic_link(link).unwrap(), b"target");
}

#[test]
fn a_long_target_is_durable_with_its_link() {
    let mut volume = volume(8, LARGE_CACHE);
    let target = vec![b'x'; 4095];
    let link = volume.create_symbolic_link(ROOT, b"l", &target, &new(FileKind::SymbolicLink, 1)).unwrap();
    let too_long = volume.create_symbolic_link(ROOT, b"m", &[b'x'; 4096], &new(FileKind::SymbolicLink, 1));
    assert_eq!(too_long, Err(VolumeError::BadTarget { bytes: 4096, most: 4095 }));
    let volume = crash(volume, LARGE_CACHE);
    assert_eq!(volume.read_symbolic_link(link).unwrap(), target);
    assert_eq!(volume.metadata(link).unwrap().size, 4095);
}

#[test]
fn a_file_lives_as_long_as_one_of_its_names() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    let one = file(&mut volume, ROOT, "one", b"content");
    volume.link(one, a, b"two", at(5)).unwrap();
    volume.link(one, ROOT, b"three", at(6)).unwrap();
    assert_eq!(volume.metadata(one).unwrap().links, 3);
    assert_eq!(volume.metadata(one).unwrap().changed, at(6));
    volume.sync(one).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(volume.metadata(one).unwrap().links, 3);
    // The name in the inode goes first, and another takes its place.
    volume.unlink(ROOT, b"one", at(7)).unwrap();
    let mut before = crash(volume.try_clone().unwrap(), LARGE_CACHE);
    assert_eq!(content(&mut before, one), b"content");
    assert_eq!(before.metadata(one).unwrap().links, 3);
    volume.sync_names().unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(
        (list(&volume, ROOT), list(&volume, a)),
        (vec!["a".into(), "three".into()], vec!["two".into()])
    );
    volume.unlink(ROOT, b"three", at(8)).unwrap();
    assert_eq!(content(&mut volume, one), b"content");
    volume.unlink(a, b"two", at(9)).unwrap();
    assert_eq!(volume.metadata(one), Err(VolumeError::NoSuchFile(one)));
    let volume = remount(volume, LARGE_CACHE);
    assert_eq!(list(&volume, ROOT), ["a"]);
}

#[test]
fn names_of_one_file_stay_when_renamed_over_each_other() {
    let mut volume = volume(8, LARGE_CACHE);
    let one = file(&mut volume, ROOT, "one", b"x");
    volume.link(one, ROOT, b"two", at(1)).unwrap();
    rename(&mut volume, (ROOT, "one"), (ROOT, "two"), RenameMode::Replace).unwrap();
    assert_eq!(list(&volume, ROOT), ["one", "two"]);
    let folder = folder(&mut volume, ROOT, "f");
    assert_eq!(volume.link(folder, ROOT, b"g", at(1)), Err(VolumeError::IsAFolder(folder)));
}

#[test]
fn renames_do_what_posix_says() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    let b = folder(&mut volume, a, "b");
    let e = folder(&mut volume, ROOT, "empty");
    let f = file(&mut volume, ROOT, "f", b"f");
    let g = file(&mut volume, a, "g", b"g");
    let replace = RenameMode::Replace;
    let taken = Err(VolumeError::NameExists("g".into()));
    assert_eq!(rename(&mut volume, (ROOT, "f"), (a, "g"), RenameMode::NoReplace), taken);
    assert_eq!(rename(&mut volume, (ROOT, "a"), (b, "x"), replace), Err(VolumeError::IntoItself(a)));
    assert_eq!(rename(&mut volume, (ROOT, "a"), (a, "x"), replace), Err(VolumeError::IntoItself(a)));
    assert_eq!(
        rename(&mut volume, (ROOT, "empty"), (ROOT, "a"), replace),
        Err(VolumeError::FolderNotEmpty(a))
    );
    assert_eq!(rename(&mut volume, (ROOT, "f"), (ROOT, "a"), replace), Err(VolumeError::IsAFolder(a)));
    assert_eq!(rename(&mut volume, (ROOT, "a"), (ROOT, "f"), replace), Err(VolumeError::NotAFolder(f)));
    let missing = Err(VolumeError::NameNotFound("x".into()));
    assert_eq!(rename(&mut volume, (ROOT, "f"), (a, "x"), RenameMode::Exchange), missing);
    // A folder over an empty one, then a file over a file.
    rename(&mut volume, (a, "b"), (ROOT, "empty"), replace).unwrap();
    assert_eq!(volume.metadata(e), Err(VolumeError::NoSuchFile(e)));
    assert_eq!((volume.lookup(ROOT, b"empty"), volume.parent(b)), (Ok(b), Ok(ROOT)));
    assert_eq!(volume.metadata(a).unwrap().links, 2);
    rename(&mut volume, (ROOT, "f"), (a, "g"), replace).unwrap();
    assert_eq!(volume.metadata(g), Err(VolumeError::NoSuchFile(g)));
    let volume = remount(volume, LARGE_CACHE);
    assert_eq!((list(&volume, ROOT), list(&volume, a)), (vec!["a".into(), "empty".into()], vec!["g".into()]));
}

#[test]
fn a_file_and_a_folder_swap_their_names_in_one_step() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    let inner = folder(&mut volume, a, "inner");
    let f = file(&mut volume, ROOT, "f", b"f");
    volume.sync_all().unwrap();
    assert_eq!(
        rename(&mut volume, (ROOT, "a"), (a, "inner"), RenameMode::Exchange),
        Err(VolumeError::IntoItself(a))
    );
    rename(&mut volume, (ROOT, "f"), (a, "inner"), RenameMode::Exchange).unwrap();
    let before = crash(volume.try_clone().unwrap(), LARGE_CACHE);
    assert_eq!((before.lookup(ROOT, b"f"), before.lookup(a, b"inner")), (Ok(f), Ok(inner)));
    volume.sync_names().unwrap();
    let volume = crash(volume, LARGE_CACHE);
    assert_eq!((volume.lookup(ROOT, b"f"), volume.lookup(a, b"inner")), (Ok(inner), Ok(f)));
    assert_eq!([ROOT, a, inner].map(|file| volume.metadata(file).unwrap().links), [4, 2, 2]);
}

#[test]
fn a_rename_and_the_whiteout_that_it_leaves_are_one_step() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    let f = file(&mut volume, ROOT, "f", b"f");
    let old = file(&mut volume, a, "g", b"g");
    volume.sync_all().unwrap();
    let whiteout = NewFile { permissions: 0, ..new(FileKind::CharDevice, 9) };
    volume.rename_leaving_whiteout(ROOT, b"f", a, b"g", &whiteout).unwrap();
    let before = crash(volume.try_clone().unwrap(), LARGE_CACHE);
    assert_eq!((before.lookup(ROOT, b"f"), before.lookup(a, b"g")), (Ok(f), Ok(old)));
    // The sync of another file takes both along.
    file(&mut volume, ROOT, "other", b"");
    let other = volume.lookup(ROOT, b"other").unwrap();
    volume.sync(other).unwrap();
    let after = crash(volume, LARGE_CACHE);
    assert_eq!((after.lookup(a, b"g"), after.metadata(old)), (Ok(f), Err(VolumeError::NoSuchFile(old))));
    let left = after.metadata(after.lookup(ROOT, b"f").unwrap()).unwrap();
    assert_eq!((left.kind, left.device_number, left.permissions), (FileKind::CharDevice, 0, 0));
    assert_eq!((left.owner, left.created), (7, at(9)));
}

/// A batch of a small drive is full again and again while whiteouts are made: no crash separates a rename from its
/// whiteout.
#[test]
fn whiteouts_and_renames_stay_together_however_full_batches_are() {
    let mut volume = volume(8, LARGE_CACHE);
    let mut renamed = 0;
    for number in 0..200 {
        let (name, moved) = (format!("f{number}"), format!("g{number}"));
        file(&mut volume, ROOT, &name, b"");
        let whiteout = new(FileKind::CharDevice, 9);
        volume.rename_leaving_whiteout(ROOT, name.as_bytes(), ROOT, moved.as_bytes(), &whiteout).unwrap();
        let after = crash(volume.try_clone().unwrap(), LARGE_CACHE);
        for number in 0..=number {
            let [old, new] =
                ["f", "g"].map(|letter| after.lookup(ROOT, format!("{letter}{number}").as_bytes()));
            let is_whiteout = old.is_ok_and(|f| after.metadata(f).unwrap().kind == FileKind::CharDevice);
            assert_eq!(is_whiteout, new.is_ok(), "{number}");
            renamed += u32::from(new.is_ok());
        }
    }
    assert_eq!(list(&volume, ROOT).len(), 400);
    assert!(renamed > 0, "batches were full");
}

#[test]
fn a_whiteout_that_is_refused_leaves_all_as_it_was() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    let f = file(&mut volume, ROOT, "f", b"f");
    let whiteout = new(FileKind::CharDevice, 9);
    for _ in 0..10_000 {
        let refused = volume.rename_leaving_whiteout(ROOT, b"f", ROOT, b"a", &whiteout);
        assert_eq!(refused, Err(VolumeError::IsAFolder(a)));
    }
    // Two names of one file stay, and neither becomes a whiteout.
    volume.link(f, ROOT, b"h", at(1)).unwrap();
    volume.rename_leaving_whiteout(ROOT, b"f", ROOT, b"h", &whiteout).unwrap();
    assert_eq!(list(&volume, ROOT), ["a", "f", "h"]);
    assert_eq!((volume.lookup(ROOT, b"f"), volume.lookup(ROOT, b"h")), (Ok(f), Ok(f)));
}

#[test]
fn folders_are_removed_when_they_are_empty() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    let f = file(&mut volume, a, "f", b"");
    assert_eq!(volume.remove_folder(ROOT, b"a", at(1)), Err(VolumeError::FolderNotEmpty(a)));
    assert_eq!(volume.unlink(ROOT, b"a", at(1)), Err(VolumeError::IsAFolder(a)));
    assert_eq!(volume.remove_folder(a, b"f", at(1)), Err(VolumeError::NotAFolder(f)));
    assert_eq!(volume.lookup(f, b"x"), Err(VolumeError::NotAFolder(f)));
    volume.unlink(a, b"f", at(2)).unwrap();
    volume.open(a).unwrap();
    volume.remove_folder(ROOT, b"a", at(3)).unwrap();
    // It is open still, and nothing can be made in it.
    assert_eq!(list(&volume, a), Vec::<String>::new());
    let refused = volume.create_in(a, b"x", &new(FileKind::File, 1));
    assert_eq!(refused, Err(VolumeError::NoSuchFile(a)));
    volume.close(a).unwrap();
    assert_eq!(volume.metadata(a), Err(VolumeError::NoSuchFile(a)));
    assert_eq!(volume.metadata(ROOT).unwrap().links, 2);
}

/// A rename into a folder that was removed and is still open left a name whose folder was gone after a crash, and the volume
/// did not mount.
#[test]
fn a_removed_folder_that_is_open_takes_no_names() {
    let mut volume = volume(16, LARGE_CACHE);
    let (removed, other) = (folder(&mut volume, ROOT, "removed"), folder(&mut volume, ROOT, "other"));
    let a = file(&mut volume, ROOT, "a", b"a");
    volume.sync_all().unwrap();
    volume.open(removed).unwrap();
    volume.remove_folder(ROOT, b"removed", at(2)).unwrap();

    let gone = Err(VolumeError::NoSuchFile(removed));
    for (from, mode) in [("a", RenameMode::Replace), ("other", RenameMode::NoReplace)] {
        assert_eq!(rename(&mut volume, (ROOT, from), (removed, "b"), mode), gone);
    }
    let whiteout = new(FileKind::CharDevice, 2);
    assert_eq!(volume.rename_leaving_whiteout(ROOT, b"a", removed, b"b", &whiteout), gone);
    assert_eq!(volume.link(a, removed, b"b", at(2)), gone);
    assert_eq!(volume.create_in(removed, b"b", &new(FileKind::File, 2)).err(), gone.err());
    volume.sync_all().unwrap();
    let volume = crash(volume, LARGE_CACHE);
    assert_eq!(list(&volume, ROOT), ["a", "other"]);
    assert_eq!((volume.lookup(ROOT, b"a"), volume.lookup(ROOT, b"other")), (Ok(a), Ok(other)));
}

#[test]
fn an_open_file_outlives_its_name_until_it_is_closed_or_the_host_crashes() {
    let mut volume = volume(8, SMALL_CACHE);
    let free = volume.free_units();
    let f = file(&mut volume, ROOT, "f", &[7; 1 << 20]);
    let other = file(&mut volume, ROOT, "other", b"other");
    volume.sync_all().unwrap();
    volume.open(f).unwrap();
    volume.open(f).unwrap();
    rename(&mut volume, (ROOT, "other"), (ROOT, "f"), RenameMode::Replace).unwrap();
    assert_eq!(volume.metadata(f).unwrap().links, 0);
    assert_eq!(volume.link(f, ROOT, b"again", at(1)), Err(VolumeError::NoSuchFile(f)));
    volume.write(f, 1 << 20, &[8; 1 << 20]).unwrap();
    volume.sync(f).unwrap();
    volume.close(f).unwrap();
    assert_eq!(content(&mut volume, f)[..1 << 20], [7; 1 << 20]);
    volume.sync_names().unwrap();
    let mut crashed = crash(volume.try_clone().unwrap(), SMALL_CACHE);
    assert_eq!(crashed.metadata(f), Err(VolumeError::NoSuchFile(f)));
    assert_eq!(crashed.free_units(), free - 1, "the crashed volume has one unit of the other file");
    assert_eq!(content(&mut crashed, other), b"other");
    volume.close(f).unwrap();
    assert_eq!(volume.metadata(f), Err(VolumeError::NoSuchFile(f)));
    assert_eq!(volume.close(f), Err(VolumeError::NoSuchFile(f)));
    volume.unlink(ROOT, b"f", at(2)).unwrap();
    volume.sync_all().unwrap();
    assert_eq!(volume.free_units(), free);
}

/// An unmounted volume is not trimmed when it is mounted: what a file had that was only open was found again in the
/// next file.
#[test]
fn a_removed_file_that_is_open_is_gone_when_the_volume_is_unmounted() {
    let mut volume = volume(1, LARGE_CACHE);
    let f = file(&mut volume, ROOT, "f", &[7; 100 * 4096]);
    volume.sync_all().unwrap();
    volume.open(f).unwrap();
    volume.unlink(ROOT, b"f", at(1)).unwrap();
    volume.sync_names().unwrap();
    let mut volume = remount(volume, LARGE_CACHE);
    let all = volume.create("all").unwrap();
    volume.allocate(all, 0, volume.free_units() * 4096, false).unwrap();
    assert!(content(&mut volume, all).iter().all(|byte| *byte == 0));
}

#[test]
fn times_change_as_posix_says_and_alone_do_not_cost_an_inode() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    let f = volume.create_in(a, b"f", &new(FileKind::File, 10)).unwrap();
    assert_eq!((volume.metadata(a).unwrap().modified, volume.metadata(f).unwrap().created), (at(10), at(10)));
    rename(&mut volume, (a, "f"), (ROOT, "f"), RenameMode::Replace).unwrap();
    let [of_a, of_f, of_root] = [a, f, ROOT].map(|file| volume.metadata(file).unwrap());
    assert_eq!((of_a.modified, of_root.modified, of_f.changed, of_f.modified), (at(9), at(9), at(9), at(10)));
    volume.sync_all().unwrap();
    let change = MetadataChange { modified: Some(at(20)), ..MetadataChange::default() };
    volume.change_metadata(f, &change).unwrap();
    assert_eq!(units_written(&mut volume, |volume| volume.sync_data(f).unwrap()), 0);
    assert_eq!(units_written(&mut volume, |volume| volume.sync(f).unwrap()), 1);
    assert_eq!(units_written(&mut volume, |volume| volume.sync(f).unwrap()), 0);
    assert_eq!(crash(volume, LARGE_CACHE).metadata(f).unwrap().modified, at(20));
}

#[test]
fn extended_attributes_of_any_size_survive() {
    let mut volume = volume(8, LARGE_CACHE);
    let f = file(&mut volume, ROOT, "f", b"x");
    let any = SetMode::Any;
    volume.set_extended_attribute(f, b"user.small", b"1", any).unwrap();
    volume.set_extended_attribute(f, b"user.large", &[9; 50_000], SetMode::Create).unwrap();
    let exists = VolumeError::AttributeExists { file: f, name: "user.small".into() };
    assert_eq!(volume.set_extended_attribute(f, b"user.small", b"2", SetMode::Create), Err(exists));
    let missing = VolumeError::AttributeNotFound { file: f, name: "user.none".into() };
    assert_eq!(volume.set_extended_attribute(f, b"user.none", b"", SetMode::Replace), Err(missing.clone()));
    let too_large = volume.set_extended_attribute(f, b"user.b", &[1; 16_000], any);
    assert!(matches!(too_large, Err(VolumeError::AttributesTooLarge { most: 65_536, .. })), "{too_large:?}");
    volume.sync(f).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(volume.extended_attributes(f).unwrap(), [b"user.large", b"user.small"]);
    assert_eq!(volume.extended_attribute(f, b"user.large").unwrap(), [9; 50_000]);
    volume.remove_extended_attribute(f, b"user.large").unwrap();
    assert_eq!(volume.remove_extended_attribute(f, b"user.none"), Err(missing));
    volume = remount(volume, LARGE_CACHE);
    assert_eq!(volume.extended_attributes(f).unwrap(), [b"user.small"]);
}

#[test]
fn a_folder_of_a_hundred_thousand_entries_is_read_once_through() {
    let mut volume = volume(1024, LARGE_CACHE);
    let a = folder(&mut volume, ROOT, "a");
    for i in 0..100_000 {
        volume.create_in(a, format!("file {i}").as_bytes(), &new(FileKind::File, 1)).unwrap();
    }
    let mut volume = remount(volume, LARGE_CACHE);
    let (mut seen, mut cookie) = (0, 0);
    loop {
        let entries: Vec<(u64, Vec<u8>)> =
            volume.read_folder(a, cookie).unwrap().take(100).map(|e| (e.cookie, e.name.to_vec())).collect();
        let Some((last, _)) = entries.last() else { break };
        cookie = *last;
        seen += entries.len();
        for (_, name) in entries {
            volume.unlink(a, &name, at(2)).unwrap();
        }
    }
    assert_eq!((seen, list(&volume, a).len()), (100_000, 0));
}

#[test]
fn deleting_works_on_a_volume_that_is_full_of_data_and_names() {
    let mut volume = volume(1, LARGE_CACHE);
    let f = file(&mut volume, ROOT, "f", b"");
    let mut unit = 0;
    while volume.write(f, unit * 4096, &[1; 4096]).is_ok() {
        unit += 1;
    }
    let mut files = 0;
    while volume.create(&format!("{files}")).is_ok() {
        files += 1;
    }
    volume.sync_all().unwrap();
    let mut volume = remount(volume, LARGE_CACHE);
    assert_eq!(volume.free_units(), 0);
    assert_eq!(volume.metadata(f).unwrap().size, unit * 4096);
    volume.punch_hole(f, 4096, 8 * 4096).unwrap();
    volume.set_size(f, 100 * 4096).unwrap();
    volume.sync(f).unwrap();
    volume.unlink(ROOT, b"0", at(1)).unwrap();
    volume.unlink(ROOT, b"f", at(1)).unwrap();
    volume.sync_names().unwrap();
    assert!(volume.free_units() > 100);
    volume.create("again").unwrap();
}
