//! A client inside the drive issues the same commands as the host, and does not wait for the link.

use tantalum::{Command, Device, Kind, Lpn, Profile, Status, UNIT_BYTES};

fn drive() -> Device {
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("openssd-barefoot").unwrap() };
    Device::in_memory(&profile).unwrap()
}

#[test]
fn a_client_inside_the_drive_pays_for_flash_and_not_for_the_link() {
    let (mut host, mut inside) = (drive(), drive());
    let start_ns = host.time_ns();
    let data = [7; UNIT_BYTES];
    let write = || Command::Write { lpn: Lpn(3), data: &data, fua: true, handle: None };
    let host_ns = host.submit(write(), start_ns).unwrap().done_ns;
    let inside_ns = inside.submit_inside(write(), start_ns).unwrap().done_ns;
    let link = host.profile().link.clone();
    let link_ns = link.command_ns + (UNIT_BYTES as u64 * 1_000_000_000).div_ceil(link.bytes_per_second);
    assert_eq!(host_ns - inside_ns, link_ns);
    assert!(inside_ns - start_ns >= host.profile().flash.program_ns);

    assert_eq!(host.smart(), inside.smart());
    assert_eq!((host.latencies().of(Kind::Write).len(), inside.latencies().of(Kind::Write).len()), (1, 0));
    let mut read = [0; UNIT_BYTES];
    inside.submit(Command::Read { lpn: Lpn(3), data: &mut read }, inside_ns).unwrap();
    assert_eq!(read, data);
}

#[test]
#[should_panic(expected = "a command was issued at 4 ns, but the one before at 5 ns")]
fn the_time_of_commands_does_not_go_back() {
    let mut drive = drive();
    drive.submit(Command::Flush, 5).unwrap();
    let _ = drive.submit_inside(Command::Flush, 4);
}

#[test]
fn a_client_inside_the_drive_is_checked_as_the_host_is() {
    let mut drive = drive();
    let units = drive.limits().capacity_units;
    let beyond = Lpn(units as u32);
    let trim = drive.submit_inside(Command::Trim { lpn: beyond, units: 1 }, 0);
    assert_eq!(trim, Err(Status::OutOfRange { lpn: beyond, units: 1, capacity_units: units }));
    drive.cut_power(drive.time_ns());
    assert_eq!(drive.submit_inside(Command::Flush, drive.time_ns()), Err(Status::PowerLost));
}
