//! Placement by the host: reclaim unit handles and reclaim units.

use tantalum::{
    CacheMode, Command, Device, DeviceError, FdpProfile, FormatError, Handle, HandleCounters, Isolation,
    LayoutError, Lpn, PlacementEventKind, Plp, PowerLoss, Profile, Status, UNIT_BYTES,
};

use crate::host::Host;
use crate::small_drive::small_drive;

/// Two planes, pages of two units, blocks of eight pages.
fn profile(handles: u32, isolation: Isolation, cache: CacheMode) -> Profile {
    let mut profile = small_drive("tlc-nvme", 4 << 20, 60.0, Plp::None);
    profile.cache.mode = cache;
    profile.cache.bytes = 32 * UNIT_BYTES as u64;
    profile.fdp = Some(FdpProfile { handles, isolation });
    profile
}

fn host(cache: CacheMode) -> Host {
    Host::new(&profile(3, Isolation::Persistently, cache))
}

fn write(host: &mut Host, lpn: u32, units: usize, handle: u8) -> Result<(), Status> {
    let data = vec![7; units * UNIT_BYTES];
    let handle = Some(Handle(handle));
    host.submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle }).map(drop)
}

fn writable(host: &Host, handle: usize) -> u64 {
    host.device.handles()[handle].writable_units
}

fn events(host: &Host) -> Vec<(u8, PlacementEventKind)> {
    host.device.placement_events().iter().map(|event| (event.handle.0, event.kind)).collect()
}

fn counters(host: &Host, handle: usize) -> HandleCounters {
    host.device.handles()[handle].counters
}

#[test]
fn a_handle_that_the_drive_does_not_have_is_refused_and_changes_nothing() {
    let mut host = host(CacheMode::Off);
    let refused = write(&mut host, 0, 1, 3).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "invalid field in command: handle 3: the drive has reclaim unit handles 0 to 2"
    );
    assert!(!host.device.is_mapped(Lpn(0)));
    assert!(matches!(host.device.update_handle(Handle(3), host.now_ns), Err(Status::InvalidField(_))));
    let mut without = Host::new(&Profile { fdp: None, ..profile(1, Isolation::Initially, CacheMode::Off) });
    assert!(matches!(write(&mut without, 0, 1, 0), Err(Status::InvalidField(_))));
    assert!(matches!(without.device.update_handle(Handle(0), without.now_ns), Err(Status::InvalidField(_))));
    assert_eq!((without.device.handles(), without.device.reclaim_unit_units()), (Vec::new(), 0));
}

#[test]
fn a_reclaim_unit_is_filled_before_the_next_one_begins() {
    let mut host = host(CacheMode::Off);
    let whole = host.device.reclaim_unit_units();
    // a block of 16 units on each plane
    assert_eq!((whole, writable(&host, 1)), (32, 32));
    for page in 0..16 {
        assert_eq!(writable(&host, 1), 32 - 2 * u64::from(page));
        assert!(events(&host).is_empty(), "after {page} pages");
        write(&mut host, 2 * page, 2, 1).unwrap();
    }
    assert_eq!(events(&host), [(1, PlacementEventKind::Filled)], "it ends once");
    assert_eq!((writable(&host, 1), writable(&host, 0), writable(&host, 2)), (32, 32, 32));
    // half of the page is lost
    write(&mut host, 50, 1, 1).unwrap();
    assert_eq!((writable(&host, 1), events(&host).len()), (30, 1));
    host.write(51, 1);
    assert_eq!(writable(&host, 0), 30, "what has no handle has the first");
    let expected = HandleCounters { host_units_written: 33, flash_host_units: 33, flash_copies: 0 };
    assert_eq!(counters(&host, 1), expected);
}

#[test]
fn the_host_ends_a_reclaim_unit_and_what_waits_goes_into_it() {
    let mut host = host(CacheMode::Volatile);
    host.device.update_handle(Handle(1), host.now_ns).unwrap();
    assert!(events(&host).is_empty(), "it was empty, and goes on");
    write(&mut host, 0, 3, 1).unwrap();
    write(&mut host, 10, 1, 2).unwrap();
    assert_eq!(writable(&host, 1), 32, "they wait");
    assert_eq!([0, 1, 2].map(|handle| host.device.waiting_units(Handle(handle))), [0, 3, 1]);
    host.device.update_handle(Handle(1), host.now_ns).unwrap();
    assert_eq!(events(&host), [(1, PlacementEventKind::NotFullyWritten { units: 28 })]);
    assert_eq!((writable(&host, 1), counters(&host, 1).flash_host_units), (32, 3));
    assert_eq!((host.device.waiting_units(Handle(1)), host.device.take_placement_events().len()), (0, 1));
    assert!(host.device.placement_events().is_empty(), "they were taken");
    assert_eq!(counters(&host, 2).flash_host_units, 0, "other handles' units go on waiting");
    host.device.audit();
}

/// Units of each handle fill pages of their own.
#[test]
fn units_of_several_handles_that_wait_fill_whole_pages() {
    let mut host = host(CacheMode::Volatile);
    for lpn in 0..240 {
        write(&mut host, lpn, 1, (lpn % 3) as u8).unwrap();
    }
    host.flush();
    let padding = host.device.smart().counters.flash_units.padding;
    assert!(padding <= 6, "{padding} units of padding");
    assert!((0..3).all(|handle| counters(&host, handle).flash_host_units == 80));
    host.device.audit();
}

#[test]
fn counters_survive_and_reclaim_units_begin_anew_when_power_comes_back() {
    let mut host = host(CacheMode::Off);
    for lpn in 0..5 {
        write(&mut host, lpn, 1, 2).unwrap();
    }
    let before = counters(&host, 2);
    assert_eq!((before.host_units_written, writable(&host, 2)), (5, 22));
    host.device.power_off(host.now_ns).unwrap();
    host.device.power_on(&mut PowerLoss::seeded(0)).unwrap();
    host.now_ns = host.device.time_ns();
    assert_eq!((counters(&host, 2), writable(&host, 2)), (before, 32));
    assert_eq!(events(&host), [(0, PlacementEventKind::PowerOn)]);
    write(&mut host, 9, 1, 2).unwrap();
    host.device.cut_power(host.now_ns);
    host.device.power_on(&mut PowerLoss::seeded(1)).unwrap();
    assert_eq!(counters(&host, 2), before, "as of the last checkpoint");
    host.device.audit();
}

/// Overwrites at random with all handles. Returns the units that were moved with each.
fn moved(isolation: Isolation) -> Vec<u64> {
    let mut host = Host::new(&profile(4, isolation, CacheMode::Off));
    let units = host.device.limits().capacity_units as u32;
    for index in 0..6 * units {
        let lpn = index.wrapping_mul(2_654_435_761) % units;
        write(&mut host, lpn, 1, (lpn % 4) as u8).unwrap();
        if index % 64 == 0 {
            host.device.audit();
        }
    }
    host.device.handles().iter().map(|state| state.counters.flash_copies).collect()
}

#[test]
fn copies_are_counted_by_handle_and_lie_apart_if_that_is_promised() {
    for isolation in [Isolation::Initially, Isolation::Persistently] {
        let moved = moved(isolation);
        assert!(moved.iter().all(|copies| *copies > 100), "{isolation:?}: {moved:?}");
    }
}

#[test]
fn a_drive_that_cannot_afford_its_handles_is_refused_with_the_numbers() {
    let made = |handles| Device::in_memory(&profile(handles, Isolation::Persistently, CacheMode::Off));
    assert!(made(4).is_ok());
    for isolation in [Isolation::Initially, Isolation::Persistently] {
        let fdp = Some(FdpProfile { handles: 8, isolation });
        let small = Profile { capacity_bytes: 128 << 20, fdp, ..Profile::load("tlc-nvme").unwrap() };
        let device = Device::in_memory(&small).unwrap();
        println!("{isolation:?}: a reclaim unit of {} units", device.reclaim_unit_units());
    }
    let Err(DeviceError::Ftl(FormatError::Layout(error))) = made(128) else {
        panic!("it has too few blocks")
    };
    let LayoutError::TooLittleForHandles { handles, handle_blocks, needed_blocks, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((handles, handle_blocks), (128, 127 * 5));
    assert!(
        needed_blocks > handle_blocks && error.to_string().contains("128 reclaim unit handles"),
        "{error}"
    );
    let invalid = Profile { fdp: None, ..profile(1, Isolation::Initially, CacheMode::Off) };
    for handles in [0, 129] {
        let fdp = Some(FdpProfile { handles, isolation: Isolation::Initially });
        let refused = Profile { fdp, ..invalid.clone() }.validate().unwrap_err();
        assert_eq!(refused.to_string(), format!("fdp.handles is {handles}: it must be 1 to 128"));
    }
}

/// Images keep their profile.
#[test]
fn a_profile_with_handles_is_read_as_it_was_written() {
    let profile = profile(8, Isolation::Persistently, CacheMode::Off);
    let text = profile.to_toml();
    assert!(text.contains("[fdp]\nhandles = 8\nisolation = \"persistently\""), "{text}");
    assert_eq!(Profile::from_toml(&text, "image"), Ok(profile));
}
