//! Files and folders, one behaviour at a time.

use crate::common;

use common::{KINDS, LARGE_CACHE, NOW, ROOT, SMALL_CACHE, crash, fs, new, remount, sound, units_when_empty};
use tantalum_filesystem::{
    Attributes, Content, Errno, FileId, FileKind, FileSystem, MetadataChange, Names, Ranges, RenameMode,
    SetMode,
};
use tantalum_lfs::{Cleaning, LfsKind, LogFs};

#[test]
fn what_was_synced_survives_a_crash_and_costs_data_and_at_most_a_unit() {
    for kind in KINDS {
        let mut fs = fs(kind, 64, Cleaning::Copy, LARGE_CACHE);
        let file = fs.create_in(ROOT, b"a", &new(FileKind::File)).unwrap();
        fs.write(file, 0, &[7; 8192]).unwrap();
        fs.sync(file).unwrap();
        let written = |fs: &LogFs| fs.client().device().smart().counters.host_units_written;
        let before = written(&fs);
        fs.write(file, 4096, &[8; 4096]).unwrap();
        fs.sync(file).unwrap();
        let expected = if kind == LfsKind::Nat { 1 } else { 2 };
        assert_eq!(written(&fs) - before, expected, "data, in place or with a summary");
        let mut fs = crash(fs, LARGE_CACHE);
        sound(&mut fs);
        assert_eq!(fs.lookup(ROOT, b"a").unwrap(), file);
        let mut data = vec![0; 9000];
        assert_eq!(fs.read(file, 0, &mut data, None).unwrap(), 8192);
        assert!(data[..4096] == [7; 4096] && data[4096..8192] == [8; 4096]);
    }
}

/// Once recovery has run, files may be older than what is in memory.
#[test]
fn without_power_nothing_is_read_not_even_from_memory() {
    for kind in KINDS {
        let mut fs = fs(kind, 64, Cleaning::Copy, LARGE_CACHE);
        let files = [b"a", b"b"].map(|name| fs.create_in(ROOT, name, &new(FileKind::File)).unwrap());
        for file in files {
            fs.write(file, 0, &[7; 8192]).unwrap();
            fs.sync(file).unwrap();
        }
        let mut fs = remount(fs, LARGE_CACHE);
        fs.write(files[0], 0, &[8; 8192]).unwrap();
        let read = |fs: &mut LogFs, bytes| fs.read(files[0], 0, &mut vec![0; bytes], None);
        assert_eq!([8192, 100].map(|bytes| read(&mut fs, bytes)), [Ok(8192), Ok(100)]);
        let now_ns = fs.client().now_ns();
        fs.client().device().cut_power(now_ns);
        assert_eq!(fs.sync(files[0]), Err(Errno::EIO));
        assert_eq!([8192, 100].map(|bytes| read(&mut fs, bytes)), [Err(Errno::EIO); 2], "{kind:?}");
        let never_there = FileId(files[1].0 + 1);
        let found = [files[1], never_there].map(|file| fs.metadata(file).map(drop));
        assert_eq!(found, [Err(Errno::EIO); 2], "{kind:?}");
    }
}

#[test]
fn a_file_of_16_tib_has_a_last_byte() {
    for kind in KINDS {
        let mut fs = fs(kind, 64, Cleaning::Copy, SMALL_CACHE);
        let file = fs.create_in(ROOT, b"sparse", &new(FileKind::File)).unwrap();
        let last = (16 << 40) - 1;
        fs.write(file, last, b"x").unwrap();
        fs.write(file, 1 << 33, b"y").unwrap();
        assert_eq!(fs.write(file, last + 1, b"z"), Err(Errno::EFBIG));
        fs.sync(file).unwrap();
        let mut fs = crash(fs, SMALL_CACHE);
        sound(&mut fs);
        let mut data = [0; 4];
        assert_eq!((fs.read(file, last - 1, &mut data, None).unwrap(), &data[..2]), (2, &b"\0x"[..]));
        assert_eq!(fs.seek_data(file, 0), Ok(Some(1 << 33)));
        assert_eq!(fs.seek_data(file, (1 << 33) + 4096), Ok(Some(last + 1 - 4096)));
        assert_eq!(
            (fs.seek_hole(file, 1 << 33), fs.seek_data(file, 16 << 40)),
            (Ok(Some((1 << 33) + 4096)), Ok(None))
        );
        assert_eq!(fs.metadata(file).unwrap().units, 2);
        let shrink = MetadataChange { size: Some(0), ..MetadataChange::default() };
        fs.change_metadata(file, &shrink).unwrap();
        fs.sync(file).unwrap();
        let statistics = fs.statistics();
        // Besides, an inode and a block of the root folder.
        assert_eq!(statistics.units - statistics.free_units, units_when_empty(kind) + 2);
        sound(&mut fs);
    }
}

#[test]
fn attributes_survive_a_remount_and_have_a_limit() {
    for kind in KINDS {
        let mut fs = fs(kind, 64, Cleaning::Copy, LARGE_CACHE);
        let file = fs.create_in(ROOT, b"a", &new(FileKind::File)).unwrap();
        fs.set_extended_attribute(file, b"user.a", b"1", SetMode::Create).unwrap();
        fs.set_extended_attribute(file, b"user.b", &[2; 900], SetMode::Any).unwrap();
        assert_eq!(fs.set_extended_attribute(file, b"user.c", &[3; 200], SetMode::Any), Err(Errno::ENOSPC));
        assert_eq!(fs.set_extended_attribute(file, b"user.a", b"", SetMode::Create), Err(Errno::EEXIST));
        let change = MetadataChange {
            permissions: Some(0o4711),
            owner: Some(9),
            accessed: Some(NOW),
            ..Default::default()
        };
        fs.change_metadata(file, &change).unwrap();
        let mut fs = remount(fs, LARGE_CACHE);
        assert_eq!(fs.extended_attributes(file).unwrap(), [b"user.a".to_vec(), b"user.b".to_vec()]);
        fs.remove_extended_attribute(file, b"user.b").unwrap();
        assert_eq!(fs.extended_attribute(file, b"user.b"), Err(Errno::ENODATA));
        let metadata = fs.metadata(file).unwrap();
        assert_eq!((metadata.permissions, metadata.owner, metadata.accessed), (0o4711, 9, NOW));
    }
}

#[test]
fn an_open_file_without_a_name_lives_and_is_gone_after_a_crash() {
    for kind in KINDS {
        let mut fs = fs(kind, 64, Cleaning::Copy, LARGE_CACHE);
        let file = fs.create_in(ROOT, b"a", &new(FileKind::File)).unwrap();
        fs.write(file, 0, &[7; 100_000]).unwrap();
        fs.open(file).unwrap();
        fs.unlink(ROOT, b"a", NOW).unwrap();
        fs.sync_folder(ROOT).unwrap();
        fs.write(file, 50_000, &[8; 10]).unwrap();
        assert_eq!(fs.metadata(file).unwrap().links, 0);
        sound(&mut fs);
        let mut fs = crash(fs, LARGE_CACHE);
        assert_eq!(fs.metadata(file), Err(Errno::ESTALE));
        let statistics = fs.statistics();
        assert_eq!((statistics.files, statistics.units - statistics.free_units), (1, units_when_empty(kind)));
        sound(&mut fs);
    }
}

#[test]
fn a_thousand_names_are_found_and_read_in_parts() {
    for kind in KINDS {
        let mut fs = fs(kind, 64, Cleaning::Copy, SMALL_CACHE);
        let folder = fs.create_in(ROOT, b"folder", &new(FileKind::Folder)).unwrap();
        for number in 0..1000 {
            fs.create_in(
                folder,
                format!("a rather long name of file {number}").as_bytes(),
                &new(FileKind::File),
            )
            .unwrap();
        }
        for number in (0..1000).step_by(3) {
            fs.unlink(folder, format!("a rather long name of file {number}").as_bytes(), NOW).unwrap();
        }
        let mut fs = remount(fs, SMALL_CACHE);
        let (mut after, mut count) = (0, 0);
        loop {
            let mut taken = 0;
            fs.read_folder(folder, after, &mut |entry| {
                (after, taken) = (entry.cookie, taken + 1);
                if taken == 7 {
                    std::ops::ControlFlow::Break(())
                } else {
                    std::ops::ControlFlow::Continue(())
                }
            })
            .unwrap();
            count += taken;
            if taken == 0 {
                break;
            }
        }
        assert_eq!(count, 666);
        assert!(fs.lookup(folder, b"a rather long name of file 3").is_err());
        assert_eq!(fs.rename_in(ROOT, b"folder", folder, b"x", RenameMode::Replace, NOW), Err(Errno::EINVAL));
        sound(&mut fs);
    }
}
