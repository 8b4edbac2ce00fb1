//! Damaged drives: an error or a finding, never a panic.

use crate::common;

use common::{KINDS, LARGE_CACHE, ROOT, device, new, sound};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Lpn, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_filesystem::{Content, FileKind, FileSystem, Names};
use tantalum_lfs::{Cleaning, LfsError, LfsKind, LogFs};

/// A file system with folders and a file that needs nodes, unmounted.
fn unmounted(kind: LfsKind) -> Drive {
    let drive = Drive::new(device(16));
    let mut fs = LogFs::format(drive.client(), kind, Cleaning::Copy, LARGE_CACHE).unwrap();
    let mut folder = ROOT;
    for level in 0..4u32 {
        folder = fs.create_in(folder, format!("folder {level}").as_bytes(), &new(FileKind::Folder)).unwrap();
        let file = fs.create_in(folder, b"file", &new(FileKind::File)).unwrap();
        fs.write(file, u64::from(level) << 24, &[level as u8 + 1; 20_000]).unwrap();
        fs.sync(file).unwrap();
    }
    drop(fs.unmount().map_err(|failed| failed.1).unwrap());
    drive
}

fn overwrite(drive: &Drive, lpn: Lpn, data: &[u8]) {
    let mut client = drive.client();
    client.submit(Command::Write { lpn, data, fua: true, handle: None }).unwrap();
}

#[test]
fn any_damaged_unit_is_an_error_or_a_finding_and_never_a_panic() {
    for kind in KINDS {
        let whole = unmounted(kind);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut refused, mut found, mut units) = (0, 0, 0);
        for lpn in 0..4096 {
            if !whole.lock().is_mapped(Lpn(lpn)) {
                continue;
            }
            units += 1;
            let drive = whole.try_clone().unwrap();
            let mut data = [0; UNIT_BYTES];
            if rng.random_bool(0.5) {
                rng.fill_bytes(&mut data);
            }
            overwrite(&drive, Lpn(lpn), &data);
            match LogFs::mount(drive.client(), LARGE_CACHE) {
                Err(_) => refused += 1,
                Ok(mut fs) => {
                    found += u32::from(!matches!(fs.check(), Ok(findings) if findings.is_empty()));
                    let _ = fs.lookup(ROOT, b"folder 0");
                    let _ = fs.create_in(ROOT, b"new", &new(FileKind::File));
                    let _ = fs.write_back();
                }
            }
        }
        println!("{units} units: {refused} refused, {found} found");
        assert!(refused > 0 && found > 5, "{units} units: {refused} refused, {found} found");
    }
}

#[test]
fn the_copy_of_the_superblock_is_used_and_another_drive_is_refused() {
    let drive = unmounted(LfsKind::Tree);
    overwrite(&drive, Lpn(0), &[7; UNIT_BYTES]);
    assert!(LogFs::is_formatted(&mut drive.lock()).unwrap());
    let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).unwrap();
    sound(&mut fs);
    drop(fs);
    overwrite(&drive, Lpn(1), &[7; UNIT_BYTES]);
    assert!(!LogFs::is_formatted(&mut drive.lock()).unwrap());
    assert_eq!(LogFs::mount(drive.client(), LARGE_CACHE).unwrap_err(), LfsError::NotFormatted);
}
