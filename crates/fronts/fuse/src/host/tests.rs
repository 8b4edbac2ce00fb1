//! Requests on a file system without any optional feature: what the mount itself must do for every file system.

use std::time::{Duration, SystemTime};

use fuser::{Errno, FileHandle, INodeNo, OpenFlags};
use nix::libc;
use tantalum::{Command, Device, Lpn, Profile, UNIT_BYTES};
use tantalum_drive::{Answers, Drive, Pacing};
use tantalum_filesystem::{FileId, FileKind};
use tantalum_lfs::{Cleaning, LfsKind, LogFs};

use super::attributes::Change;
use super::memory::MemoryFileSystem;
use super::{Caller, Host};
use crate::front::Front;
use crate::ioctl;
use crate::refusal::Refusal;

const ROOT: INodeNo = INodeNo::ROOT;
const USER: Caller = Caller { user: 1000, group: 1000 };
const NO_FLAGS: OpenFlags = OpenFlags(libc::O_RDWR);

fn drive() -> Drive {
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
    Drive::new(Device::in_memory(&profile).unwrap())
}

pub(crate) fn memory() -> MemoryFileSystem {
    MemoryFileSystem::new(drive().client())
}

pub(crate) fn host() -> Host {
    Host::new(Box::new(memory()))
}

fn make(host: &mut Host, folder: INodeNo, name: &[u8], kind: FileKind) -> INodeNo {
    host.make(USER, folder, name, kind, 0o6755, 0).unwrap().ino
}

#[test]
fn a_file_that_the_kernel_knows_outlives_its_names() {
    let mut host = host();
    let file = make(&mut host, ROOT, b"file", FileKind::File);
    host.write(file, 0, b"kept", NO_FLAGS, false, None).unwrap();
    host.unlink(ROOT, b"file").unwrap();
    assert_eq!(host.lookup(ROOT, b"file").unwrap_err(), Refusal(Errno::ENOENT));
    let mut data = [0; 9];
    assert_eq!(host.read(file, 0, &mut data), Ok(4));
    assert_eq!(&data[..4], b"kept");
    host.forget(file, 1);
    assert_eq!(host.attributes(file).unwrap_err(), Refusal(Errno::ESTALE));
}

#[test]
fn what_is_made_in_a_folder_with_its_group_has_that_group() {
    let mut host = host();
    let folder = make(&mut host, ROOT, b"folder", FileKind::Folder);
    let own = Caller { user: 2000, group: 2000 };
    let file = host.make(own, folder, b"file", FileKind::File, 0o644, 0).unwrap();
    assert_eq!((file.uid, file.gid), (2000, 1000));
    let inner = host.make(own, folder, b"inner", FileKind::Folder, 0o755, 0).unwrap();
    assert_eq!(u32::from(inner.perm) & libc::S_ISGID, libc::S_ISGID);
}

#[test]
fn a_program_that_is_changed_loses_its_owner_s_rights() {
    let mut host = host();
    let file = make(&mut host, ROOT, b"program", FileKind::File);
    host.write(file, 0, b"x", NO_FLAGS, true, None).unwrap();
    assert_eq!(host.attributes(file).unwrap().perm, 0o755);
    host.change(USER, file, Change { mode: Some(0o4755), ..Change::default() }).unwrap();
    host.change(USER, file, Change { size: Some(0), ..Change::default() }).unwrap();
    assert_eq!(host.attributes(file).unwrap().perm, 0o755);
}

#[test]
fn what_the_file_system_does_not_have_is_refused() {
    let mut host = host();
    let file = make(&mut host, ROOT, b"file", FileKind::File);
    host.write(file, 0, &[1; 5000], NO_FLAGS, false, None).unwrap();
    let refused = Refusal(Errno::EOPNOTSUPP);
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    assert_eq!(host.allocate(file, 0, 1, punch), Err(refused));
    assert_eq!(host.allocate(file, 0, 1, 0), Err(refused));
    assert_eq!(host.copy((file, 0), (file, 8192), 4096), Err(refused));
    assert_eq!(host.set_extended_attribute(file, b"user.a", b"b", 0), Err(refused));
    let (handle, _) = host.open(file, NO_FLAGS).unwrap();
    let token = host.ioctl(handle, ioctl::Request::Token).unwrap().out;
    let token = u64::from_ne_bytes(token.try_into().unwrap());
    let range = ioctl::Range { from: token, from_offset: 0, to: token, to_offset: 4096, bytes: 4096 };
    assert_eq!(host.ioctl(handle, ioctl::Request::Commit(vec![range])).unwrap_err(), refused);
    assert_eq!(host.ioctl(handle, ioctl::Request::Exchange(range)).unwrap_err(), refused);
    let closed = host.ioctl(FileHandle(99), ioctl::Request::Token).unwrap_err();
    assert_eq!(closed, Refusal(Errno::EBADF));
}

#[test]
fn what_the_kernel_may_hold_of_a_file_is_not_gone_around() {
    let mut host = Host { write_back: true, ..host() };
    let file = make(&mut host, ROOT, b"file", FileKind::File);
    host.change(USER, file, Change { size: Some(10_000), ..Change::default() }).unwrap();
    // the kernel then asks no more, and takes the file for data
    let refused = Refusal(Errno::ENOSYS);
    assert_eq!(host.seek(file, 0, libc::SEEK_DATA), Err(refused));
    assert_eq!(host.seek(file, 0, libc::SEEK_HOLE), Err(refused));
    let (handle, _) = host.open(file, NO_FLAGS).unwrap();
    let range = ioctl::Range { from: 1, from_offset: 0, to: 2, to_offset: 0, bytes: 4096 };
    for request in
        [ioctl::Request::Token, ioctl::Request::Commit(vec![range]), ioctl::Request::Exchange(range)]
    {
        assert_eq!(host.ioctl(handle, request).unwrap_err(), Refusal(Errno::EOPNOTSUPP));
    }
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    host.change(USER, file, Change { changed: Some(then), ..Change::default() }).unwrap();
    assert_eq!(host.attributes(file).unwrap().ctime, then);
}

#[test]
fn a_file_system_that_knows_of_no_holes_has_none() {
    let mut host = host();
    let file = make(&mut host, ROOT, b"file", FileKind::File);
    host.change(USER, file, Change { size: Some(10_000), ..Change::default() }).unwrap();
    assert_eq!(host.seek(file, 7, libc::SEEK_DATA), Ok(7));
    assert_eq!(host.seek(file, 7, libc::SEEK_HOLE), Ok(10_000));
    assert_eq!(host.seek(file, 10_000, libc::SEEK_DATA), Err(Refusal(Errno::ENXIO)));
    assert_eq!(host.seek(file, 10_000, libc::SEEK_HOLE), Err(Refusal(Errno::ENXIO)));
}

#[test]
fn a_sync_reaches_the_drive_and_so_does_a_synchronous_write() {
    let mut host = host();
    let file = make(&mut host, ROOT, b"file", FileKind::File);
    let flushes = |host: &Host| host.file_system.client().device().smart().counters.flushes;
    let before = flushes(&host);
    host.write(file, 0, &[1; UNIT_BYTES], NO_FLAGS, false, None).unwrap();
    assert_eq!(flushes(&host), before);
    host.write(file, 0, &[1; UNIT_BYTES], OpenFlags(libc::O_RDWR | libc::O_DSYNC), false, None).unwrap();
    host.sync(file, true).unwrap();
    host.sync(file, false).unwrap();
    host.sync_folder(ROOT).unwrap();
    assert_eq!(flushes(&host), before + 4);
}

#[test]
fn without_power_requests_fail_and_who_mounted_is_told_once() {
    let front = Front::new(host(), Answers::new(Pacing::None, 0).unwrap());
    let (sender, stops) = std::sync::mpsc::channel();
    *front.on_stop.lock() = Some(Box::new(move |status| sender.send(status).unwrap()));
    let lookup = || front.with(|host| host.lookup(ROOT, b"file")).outcome.unwrap_err();
    assert_eq!(lookup(), Refusal(Errno::ENOENT));
    assert_eq!(front.cut(None), Some(false));
    assert_eq!(lookup(), Refusal(Errno::EIO));
    assert_eq!(stops.try_iter().count(), 1);
    assert!(front.take().is_some());
    assert_eq!((front.cut(None), lookup()), (None, Refusal(Errno::EIO)));
}

/// SQLite takes an error for the absence of a file: on a mount whose drive had lost power it ignored the rollback journal of a
/// killed program, read half of a transaction from the kernel's cache, and said that the database was malformed.
#[test]
fn without_power_the_names_and_attributes_in_memory_are_still_known() {
    let fs = LogFs::format(drive().client(), LfsKind::Tree, Cleaning::Copy, 1 << 20).unwrap();
    for mut host in [host(), Host::new(Box::new(fs))] {
        let file = make(&mut host, ROOT, b"journal", FileKind::File);
        host.write(file, 0, &[1; 5000], NO_FLAGS, false, None).unwrap();
        let front = Front::new(host, Answers::new(Pacing::None, 0).unwrap());
        assert_eq!(front.cut(None), Some(false));
        let found = front.known(|host| host.lookup(ROOT, b"journal")).outcome.unwrap();
        assert_eq!((found.ino, found.size), (file, 5000));
        assert_eq!(front.known(|host| host.attributes(file)).outcome.unwrap().size, 5000);
        assert_eq!(front.known(|host| host.lookup(ROOT, b"none")).outcome, Err(Refusal(Errno::ENOENT)));
        // what is in the files is not
        let mut data = [0; 5000];
        assert_eq!(front.with(|host| host.read(file, 0, &mut data)).outcome, Err(Refusal(Errno::EIO)));
        front.take();
        assert_eq!(front.known(|host| host.attributes(file)).outcome, Err(Refusal(Errno::EIO)));
    }
}

#[test]
fn a_drive_that_stops_while_a_request_is_served_is_noticed() {
    let front = Front::new(host(), Answers::new(Pacing::None, 0).unwrap());
    let (sender, stops) = std::sync::mpsc::channel();
    *front.on_stop.lock() = Some(Box::new(move |status| sender.send(status).unwrap()));
    assert_eq!(front.cut(Some(1)), Some(true));
    let ended = front.with(|host| {
        let client = host.file_system.client_mut();
        let written =
            client.submit(Command::Write { lpn: Lpn(0), data: &[1; UNIT_BYTES], fua: true, handle: None });
        let synced = host.sync(INodeNo(FileId::ROOT.0.into()), false);
        written.map_err(|_| Errno::EIO)?;
        synced
    });
    assert_eq!(ended.outcome, Err(Refusal(Errno::EIO)));
    assert_eq!(stops.try_iter().count(), 1);
}

#[test]
fn a_flush_follows_each_write_only_if_that_is_wanted() {
    let direct = OpenFlags(libc::O_RDWR | libc::O_DIRECT);
    for (sync_writes, expected) in [(false, 0), (true, 3)] {
        let mut host = Host { sync_writes, ..host() };
        let file = make(&mut host, ROOT, b"file", FileKind::File);
        let flushes = |host: &Host| host.file_system.client().device().smart().counters.flushes;
        let before = flushes(&host);
        host.write(file, 0, &[1; UNIT_BYTES], direct, false, None).unwrap();
        host.write(file, 8192, &[2; UNIT_BYTES], direct, false, None).unwrap();
        host.write(file, 5, b"part", NO_FLAGS, false, None).unwrap();
        assert_eq!(flushes(&host) - before, expected, "sync_writes {sync_writes}");
    }
}

/// Overwritten in place, contents are durable without the inode; a sync of the file also writes that, for its times.
#[test]
fn the_flush_that_follows_a_write_is_a_sync_of_data() {
    let fs = LogFs::format(drive().client(), LfsKind::Nat, Cleaning::Copy, 1 << 20).unwrap();
    let mut host = Host { sync_writes: true, ..Host::new(Box::new(fs)) };
    let file = make(&mut host, ROOT, b"file", FileKind::File);
    let mut written = |flags| {
        let units = |host: &Host| host.file_system.client().device().smart().counters.host_units_written;
        let before = units(&host);
        host.write(file, 0, &[1; UNIT_BYTES], OpenFlags(flags), false, None).unwrap();
        units(&host) - before
    };
    let (data, all) = (libc::O_RDWR | libc::O_DIRECT, libc::O_RDWR | libc::O_DIRECT | libc::O_SYNC);
    assert!(written(data) > 1, "the file is new");
    assert_eq!([written(data), written(all), written(data)], [1, 2, 1]);
}

/// As overlayfs does; a file system without whiteouts refuses them, and an unknown flag is refused.
#[test]
fn a_rename_may_leave_a_whiteout_if_the_file_system_has_them() {
    use fuser::RenameFlags;
    let (from, to) = ((ROOT, &b"file"[..]), (ROOT, &b"new"[..]));
    let mut plain = host();
    make(&mut plain, ROOT, b"file", FileKind::File);
    let refused = plain.rename(USER, from, to, RenameFlags::RENAME_WHITEOUT).unwrap_err();
    assert_eq!(refused, Refusal(Errno::EINVAL));
    plain.lookup(ROOT, b"file").unwrap();
    let both = RenameFlags::RENAME_WHITEOUT | RenameFlags::RENAME_EXCHANGE;
    assert_eq!(plain.rename(USER, from, to, both).unwrap_err(), Refusal(Errno::EINVAL));
    plain.rename(USER, from, to, RenameFlags::empty()).unwrap();
}
