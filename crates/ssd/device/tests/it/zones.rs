//! Zones: blocks that the host fills in order.

use tantalum::{
    Access, CacheMode, Command, Device, FailingStep, Faults, Lpn, Outcome, Plp, PowerLoss, Profile, Status,
    StepFault, UNIT_BYTES, ZoneAction, ZoneCondition, ZoneId, ZoneRefusal, ZonesProfile, result_of,
};

use crate::host::Host;
use crate::small_drive::small_drive;

const ZONES: ZonesProfile = ZonesProfile { count: 6, planes: 2, max_open: 2, max_active: 3 };

/// Two planes, pages of two units, blocks of eight pages: zones of 32 units.
fn profile(cache: CacheMode) -> Profile {
    let plp = if cache == CacheMode::Durable { Plp::Capacitor } else { Plp::None };
    let mut profile = small_drive("tlc-nvme", 1 << 20, 160.0, plp);
    profile.cache.mode = cache;
    profile.cache.bytes = 24 * UNIT_BYTES as u64;
    profile.zones = Some(ZONES);
    profile
}

fn host(cache: CacheMode) -> Host {
    Host::new(&profile(cache))
}

fn data(first: u32, units: u32) -> Vec<u8> {
    (first..first + units).flat_map(|unit| [unit as u8 + 1; UNIT_BYTES]).collect()
}

/// Appends units whose bytes are their places in the zone, and one more.
fn append(host: &mut Host, zone: u32, units: u32, fua: bool) -> Result<u32, Status> {
    let data = data(written(host, zone), units);
    let zone = ZoneId(zone);
    result_of(|offset| host.submit(Command::ZoneAppend { zone, data: &data, fua, offset }))
}

fn written(host: &Host, zone: u32) -> u32 {
    host.device.zones()[zone as usize].written
}

fn condition(host: &Host, zone: u32) -> ZoneCondition {
    host.device.zones()[zone as usize].condition
}

fn manage(host: &mut Host, zone: u32, action: ZoneAction) -> Result<(), Status> {
    host.submit(Command::ZoneManage { zone: Some(ZoneId(zone)), action }).map(drop)
}

/// What is in a zone is what was appended, up to the write pointer, and zeros behind it.
fn check(host: &mut Host, zone: u32) {
    let (size, written) = (host.device.zone_shape().unwrap().size_units, written(host, zone));
    let mut found = vec![9; size as usize * UNIT_BYTES];
    host.submit(Command::ZoneRead { zone: ZoneId(zone), offset: 0, data: &mut found }).unwrap();
    let mut expected = data(0, written);
    expected.resize(found.len(), 0);
    for (unit, (found, expected)) in found.chunks(UNIT_BYTES).zip(expected.chunks(UNIT_BYTES)).enumerate() {
        assert!(found == expected, "unit {unit} of zone {zone} has {} for {}", found[0], expected[0]);
    }
    host.device.audit();
}

fn flash_units(host: &Host) -> (u64, u64, u64) {
    let units = host.device.smart().counters.flash_units;
    (units.host, units.padding, units.copyback)
}

#[test]
fn a_zone_is_filled_read_and_reset() {
    for cache in [CacheMode::Off, CacheMode::Volatile, CacheMode::Durable] {
        let mut host = host(cache);
        let shape = host.device.zone_shape().unwrap();
        assert_eq!((shape.capacity_units, shape.size_units), (32, 32));
        for (units, first) in [(1, 0), (3, 1), (2, 4), (7, 6), (19, 13)] {
            assert_eq!(append(&mut host, 1, units, false), Ok(first));
            check(&mut host, 1);
        }
        assert_eq!(condition(&host, 1), ZoneCondition::Full);
        let (zone, full) = (ZoneId(1), ZoneRefusal::Full { zone: ZoneId(1) });
        assert_eq!(append(&mut host, 1, 1, false), Err(Status::Zone(full)));
        manage(&mut host, 1, ZoneAction::Reset).unwrap();
        assert_eq!((condition(&host, 1), written(&host, 1)), (ZoneCondition::Empty, 0));
        check(&mut host, 1);
        let write = Command::ZoneWrite { zone, offset: 1, data: &data(1, 1), fua: false };
        let refusal = ZoneRefusal::InvalidWrite { zone, offset: 1, pointer: 0 };
        assert_eq!(host.submit(write), Err(Status::Zone(refusal)));
        host.submit(Command::ZoneWrite { zone, offset: 0, data: &data(0, 2), fua: false }).unwrap();
        check(&mut host, 1);
    }
}

#[test]
fn whole_pages_are_programmed_once_and_a_flush_in_the_middle_of_one_costs_a_page() {
    let mut host = host(CacheMode::Volatile);
    for _ in 0..32 {
        append(&mut host, 0, 1, false).unwrap();
    }
    host.flush();
    assert_eq!(flash_units(&host), (32, 0, 0), "no unit is programmed twice");
    assert_eq!(host.device.smart().counters.host_units_written, 32);
    append(&mut host, 1, 1, false).unwrap();
    host.flush();
    assert_eq!(flash_units(&host), (33, 1, 0), "the tail takes a page elsewhere");
    append(&mut host, 1, 1, false).unwrap();
    assert_eq!(flash_units(&host), (35, 1, 0), "and is programmed again with its page");
    check(&mut host, 1);
}

/// The host's promise: what was flushed, or written with FUA, is there; and never anything behind a hole.
#[test]
fn a_flushed_tail_is_there_after_a_cut_and_goes_on() {
    for units in [1, 2, 5, 31] {
        let mut host = host(CacheMode::Volatile);
        append(&mut host, 3, units, false).unwrap();
        host.flush();
        append(&mut host, 4, units, true).unwrap();
        append(&mut host, 5, units, false).unwrap();
        host.cut();
        assert_eq!((written(&host, 3), written(&host, 4)), (units, units));
        assert!(written(&host, 5) <= units);
        for zone in 3..6 {
            check(&mut host, zone);
            let rest = 32 - written(&host, zone);
            append(&mut host, zone, rest, false).unwrap();
            check(&mut host, zone);
        }
        host.flush();
        host.cut();
        for zone in 3..6 {
            assert_eq!((written(&host, zone), condition(&host, zone)), (32, ZoneCondition::Full));
            check(&mut host, zone);
        }
    }
}

#[test]
fn a_reset_and_a_finish_are_durable_when_they_return() {
    for cache in [CacheMode::Off, CacheMode::Volatile, CacheMode::Durable] {
        let mut host = host(cache);
        append(&mut host, 0, 9, false).unwrap();
        append(&mut host, 1, 9, false).unwrap();
        host.flush();
        manage(&mut host, 0, ZoneAction::Reset).unwrap();
        manage(&mut host, 1, ZoneAction::Finish).unwrap();
        host.cut();
        assert_eq!((condition(&host, 0), written(&host, 0)), (ZoneCondition::Empty, 0), "{cache:?}");
        assert_eq!((condition(&host, 1), written(&host, 1)), (ZoneCondition::Full, 9), "{cache:?}");
        check(&mut host, 0);
        check(&mut host, 1);
    }
}

#[test]
fn a_clean_shutdown_keeps_tails_and_closes_what_was_open() {
    let mut host = host(CacheMode::Volatile);
    append(&mut host, 0, 3, false).unwrap();
    manage(&mut host, 2, ZoneAction::Open).unwrap();
    assert_eq!(condition(&host, 2), ZoneCondition::ExplicitlyOpen);
    host.device.power_off(host.now_ns).unwrap();
    let report = host.device.power_on(&mut PowerLoss::seeded(0)).unwrap();
    assert!(report.clean);
    host.now_ns = host.device.time_ns();
    assert_eq!((condition(&host, 0), written(&host, 0)), (ZoneCondition::Closed, 3));
    assert_eq!(condition(&host, 2), ZoneCondition::Empty, "nothing was written");
    append(&mut host, 0, 2, false).unwrap();
    check(&mut host, 0);
}

#[test]
fn all_zones_are_reset_at_once_and_the_limits_are_those_of_the_profile() {
    let mut host = host(CacheMode::Volatile);
    for zone in 0..3 {
        append(&mut host, zone, 1, false).unwrap();
    }
    let refused = append(&mut host, 3, 1, false);
    assert_eq!(refused, Err(Status::Zone(ZoneRefusal::TooManyActive { zone: ZoneId(3), limit: 3 })));
    host.submit(Command::ZoneManage { zone: None, action: ZoneAction::Reset }).unwrap();
    assert!(host.device.zones().iter().all(|state| state.condition == ZoneCondition::Empty));
    append(&mut host, 3, 1, false).unwrap();
    let refused = manage(&mut host, 6, ZoneAction::Reset);
    assert_eq!(refused, Err(Status::Zone(ZoneRefusal::NoSuchZone { zone: ZoneId(6), count: 6 })));
    let mut data = [0; UNIT_BYTES];
    let beyond = Command::ZoneRead { zone: ZoneId(0), offset: 32, data: &mut data };
    assert!(matches!(host.submit(beyond), Err(Status::Zone(ZoneRefusal::Boundary { limit: 32, .. }))));
}

/// Blocks that a zone gives back are used again in turn, and the rest of the drive never takes those that zones may still need.
#[test]
fn zones_and_units_fill_the_drive_side_by_side() {
    let mut host = host(CacheMode::Volatile);
    let units = host.device.limits().capacity_units as u32;
    for round in 0..30 {
        for index in 0..units {
            host.write(index.wrapping_mul(2_654_435_761) % units, round);
        }
        for zone in 0..6 {
            manage(&mut host, zone, ZoneAction::Reset).unwrap();
            append(&mut host, zone, 32, false).unwrap();
            check(&mut host, zone);
        }
    }
    let smart = host.device.smart();
    assert!(smart.erase_count_max - smart.erase_count_min < 40, "{smart:?}");
    assert!(!smart.read_only);
}

#[test]
fn data_of_a_block_that_fails_move_to_another() {
    for seed in 0..20 {
        let mut profile = profile(CacheMode::Volatile);
        profile.over_provisioning_percent = 300.0;
        let mut host = Host::new(&profile);
        let faults = Faults { program_failure_ppm: 30_000, seed, ..Faults::default() };
        host.device.set_faults(faults).unwrap();
        for zone in 0..6 {
            while written(&host, zone) < 32 {
                append(&mut host, zone, 1, false).unwrap();
            }
            check(&mut host, zone);
        }
        let failures = host.device.smart().counters.program_failures;
        host.cut();
        (0..6).for_each(|zone| check(&mut host, zone));
        println!("seed {seed}: {failures} programs failed");
    }
}

/// Pages behind the write pointer that a cut left on flash never come back, whatever is written after it.
#[test]
fn what_a_cut_left_behind_the_write_pointer_stays_gone() {
    let mut holes = 0;
    for seed in 0..200 {
        let mut host = host(CacheMode::Volatile);
        let loss = &mut PowerLoss::seeded(seed);
        append(&mut host, 0, 3, true).unwrap();
        append(&mut host, 0, 16, false).unwrap();
        // both planes are programming by then
        host.device.cut_power(host.now_ns + 100_000);
        let in_flight = host.device.in_flight().len();
        host.device.power_on(loss).unwrap();
        host.now_ns = host.device.time_ns();
        let first = written(&host, 0);
        holes += u32::from(first < 18 && in_flight > 1);
        assert!((3..=19).contains(&first), "{first} units");
        check(&mut host, 0);
        // a page that differs from what was there before the cut
        let zone = ZoneId(0);
        let data = [200; UNIT_BYTES];
        let mut offset = 0;
        host.submit(Command::ZoneAppend { zone, data: &data, fua: true, offset: &mut offset }).unwrap();
        assert_eq!(offset, first);
        host.device.cut_power(host.now_ns);
        host.device.power_on(loss).unwrap();
        host.now_ns = host.device.time_ns();
        assert_eq!(written(&host, 0), first + 1, "seed {seed}");
        let mut found = [0; UNIT_BYTES];
        host.submit(Command::ZoneRead { zone, offset, data: &mut found }).unwrap();
        assert!(found == data);
        host.device.audit();
    }
    assert!(holes > 50, "{holes} cuts left pages behind");
}

#[test]
fn profiles_without_zones_have_none_and_others_are_checked() {
    let without = Profile { zones: None, ..profile(CacheMode::Off) };
    let mut host = Host::new(&without);
    assert_eq!((host.device.zones(), host.device.zone_shape()), (Vec::new(), None));
    assert_eq!(
        manage(&mut host, 0, ZoneAction::Reset).unwrap_err().to_string(),
        "there is no zone 0: the drive has 0"
    );
    for (zones, refusal) in [
        (ZonesProfile { count: 0, ..ZONES }, "zones.count is 0: it must be 1 to 16777216"),
        (ZonesProfile { planes: 3, ..ZONES }, "zones.planes is 3: it must be 1 to 2"),
        (ZonesProfile { max_active: 7, ..ZONES }, "zones.max_active is 7: it must be 1 to 6"),
        (ZonesProfile { max_open: 4, ..ZONES }, "zones.max_open is 4: it must be 1 to 3"),
        (ZonesProfile { count: u32::MAX, ..ZONES }, "zones.count is 4294967295: it must be 1 to 16777216"),
        (
            ZonesProfile { count: u32::MAX, planes: u32::MAX, ..ZONES },
            "zones.count is 4294967295: it must be 1 to 16777216",
        ),
    ] {
        let refused = Profile { zones: Some(zones), ..without.clone() }.validate().unwrap_err();
        assert_eq!(refused.to_string(), refusal);
    }
    let mut large = Profile { zones: Some(ZonesProfile { count: 1 << 24, ..ZONES }), ..without };
    large.flash.pages_per_block = 64;
    assert_eq!(
        large.validate().unwrap_err().to_string(),
        "zones.count is 16777216: zones of this size take more flash than can be addressed beside the capacity"
    );
    let text = profile(CacheMode::Off).to_toml();
    assert!(text.contains("[zones]\ncount = 6\nplanes = 2\nmax_open = 2\nmax_active = 3"), "{text}");
    assert_eq!(Profile::from_toml(&text, "image"), Ok(profile(CacheMode::Off)));
}

/// A drive has the flash for its zones beside that of its capacity.
#[test]
fn zones_take_no_over_provisioning() {
    let flash =
        |zones| Device::in_memory(&Profile { zones, ..profile(CacheMode::Off) }).unwrap().limits().flash;
    let (without, with) = (flash(None), flash(Some(ZONES)));
    assert_eq!(without.geometry.pages_per_block, with.geometry.pages_per_block);
    assert!(with.over_provisioning_percent >= without.over_provisioning_percent, "{with:?}");
    assert!(with.geometry.blocks() - without.geometry.blocks() < 12 + 6, "{with:?}");
}

#[test]
fn nothing_of_a_zone_that_was_reset_stays_on_flash_after_a_purge() {
    let mut host = host(CacheMode::Volatile);
    append(&mut host, 0, 5, true).unwrap();
    host.write_through(7, 7);
    manage(&mut host, 0, ZoneAction::Reset).unwrap();
    assert_eq!(host.device.purge(host.now_ns), Ok(0));
    host.now_ns = host.device.time_ns();
    assert_eq!((host.read(7), host.device.mapped_units()), (7, 1), "tails are gone");
}

/// Each step inside each command fails once. What a zone holds then is a beginning of what was written, of at least what there was before;
/// a command that was refused can be repeated, and one that leaves doubt is decided by a cut.
#[test]
fn zones_are_whole_whichever_step_of_a_command_fails() {
    let mut failed = 0;
    for cache in [CacheMode::Off, CacheMode::Volatile, CacheMode::Durable] {
        let mut host = host(cache);
        // stale blocks, a tail, and blocks that have to be opened
        for zone in 0..6 {
            append(&mut host, zone, 32, false).unwrap();
            manage(&mut host, zone, ZoneAction::Reset).unwrap();
        }
        append(&mut host, 0, 5, true).unwrap();
        append(&mut host, 1, 3, false).unwrap();
        host.now_ns = host.device.time_ns();
        for (step, command) in FailingStep::ALL.into_iter().flat_map(|step| (0..6).map(move |it| (step, it)))
        {
            for after in 0.. {
                let mut host = host.fork();
                host.device.fail_step(Some(StepFault { step, after, lasts: false })).unwrap();
                let done = match command {
                    0 => append(&mut host, 0, 9, false).map(drop),
                    1 => append(&mut host, 0, 1, true).map(drop),
                    2 => append(&mut host, 2, 3, true).map(drop),
                    3 => manage(&mut host, 0, ZoneAction::Reset),
                    4 => manage(&mut host, 1, ZoneAction::Finish),
                    _ => host.submit(Command::Flush).map(drop),
                };
                let has_failed = host.device.step_has_failed();
                host.device.fail_step(None).unwrap();
                failed += u32::from(has_failed);
                if done.as_ref().is_err_and(Status::leaves_doubt) {
                    host.cut();
                }
                let lost = matches!(step, FailingStep::Read) && has_failed;
                for zone in 0..3 {
                    let least = match (zone, command) {
                        (0, 3) | (2, _) => 0,
                        (0, _) => 5,
                        // what was not flushed may be lost with power
                        _ if done.is_err() && cache == CacheMode::Volatile => 0,
                        _ => 3,
                    };
                    assert!(written(&host, zone) >= least, "{cache:?} {step:?} {after}: {done:?}");
                    if !lost {
                        check(&mut host, zone);
                    }
                }
                if done.is_ok() && !has_failed {
                    break;
                }
                // the drive goes on
                if !lost {
                    manage(&mut host, 2, ZoneAction::Reset).unwrap();
                    append(&mut host, 3, 5, true).unwrap();
                    check(&mut host, 3);
                }
            }
        }
    }
    assert!(failed > 60, "{failed} steps failed");
}

/// Two units a page: one with FUA takes a page of its own, and is programmed again with its page.
#[test]
fn what_zones_cost_is_counted_beside_what_is_written_to_them() {
    for (cache, of_tails) in
        [(CacheMode::Off, true), (CacheMode::Volatile, true), (CacheMode::Durable, false)]
    {
        let mut host = host(cache);
        let costs = |host: &Host| host.device.zone_costs().map(|costs| (costs.written, costs.programmed));
        assert_eq!(costs(&host), Some((0, 0)));
        append(&mut host, 0, 8, true).unwrap();
        assert_eq!(costs(&host), Some((8, 8)), "whole pages");
        for _ in 0..4 {
            append(&mut host, 0, 1, true).unwrap();
        }
        let programmed = if of_tails { 8 + 2 * (2 + 2) } else { 8 + 2 * 2 };
        assert_eq!(costs(&host), Some((12, programmed)), "{cache:?}");
        let (of_host, padding, copies) = flash_units(&host);
        assert_eq!(of_host + padding + copies, programmed, "nothing else was programmed");
        // what is not of zones
        host.submit(Command::Write { lpn: Lpn(3), data: &data(0, 1), fua: true, handle: None }).unwrap();
        assert_eq!(costs(&host), Some((12, programmed)));
    }
    let without = Host::new(&Profile { zones: None, ..profile(CacheMode::Off) });
    assert_eq!(without.device.zone_costs(), None);
}

/// Two planes, and pages of four units.
fn large_pages(cache: CacheMode) -> Host {
    let mut profile = profile(cache);
    profile.flash.page_bytes = 16384;
    profile.over_provisioning_percent = 300.0;
    Host::new(&profile)
}

/// Appends without waiting. Returns when that is done.
fn append_now(host: &mut Host, zone: u32, units: u32, fua: bool) -> u64 {
    let data = data(written(host, zone), units);
    let (zone, offset) = (ZoneId(zone), &mut 0);
    host.device.submit(Command::ZoneAppend { zone, data: &data, fua, offset }, host.now_ns).unwrap().done_ns
}

fn manage_now(host: &mut Host, zone: u32, action: ZoneAction) {
    let command = Command::ZoneManage { zone: Some(ZoneId(zone)), action };
    host.device.submit(command, host.now_ns).unwrap();
}

/// Power fails at a time and comes back.
fn cut_at(host: &mut Host, at_ns: u64, loss: &mut PowerLoss) {
    host.device.cut_power(at_ns);
    host.device.power_on(loss).unwrap();
    host.device.audit();
    host.now_ns = host.device.time_ns();
}

/// The tail of zone 1 leaves with that of zone 0, which waits for a page, and what follows it is programmed before.
fn with_tail_that_is_passed() -> (Host, u64) {
    let mut host = large_pages(CacheMode::Volatile);
    append_now(&mut host, 0, 5, false);
    append_now(&mut host, 1, 1, false);
    let done_ns = append_now(&mut host, 1, 1, true);
    (host, done_ns)
}

#[test]
fn a_write_with_fua_waits_for_the_tail_before_it() {
    let (mut host, done_ns) = with_tail_that_is_passed();
    cut_at(&mut host, done_ns, &mut PowerLoss::all(Outcome::NotStarted));
    assert_eq!(written(&host, 1), 2);
    check(&mut host, 1);
}

/// A cut leaves the second unit of a tail without the first. When the first is written again, it is alone.
#[test]
fn units_of_a_tail_without_those_before_them_never_come_back() {
    let mut left_alone = 0;
    for seed in 0..40 {
        let (mut host, done_ns) = with_tail_that_is_passed();
        let loss = &mut PowerLoss::seeded(seed);
        let at_ns = host.now_ns + (done_ns - host.now_ns) * seed / 40;
        cut_at(&mut host, at_ns, loss);
        if written(&host, 1) > 0 {
            continue;
        }
        left_alone += 1;
        append(&mut host, 1, 1, true).unwrap();
        let now_ns = host.now_ns;
        cut_at(&mut host, now_ns, loss);
        assert_eq!(written(&host, 1), 1, "seed {seed}");
        check(&mut host, 1);
    }
    assert!(left_alone > 10, "{left_alone} cuts left nothing");
}

/// The reset and what is written after it are in flight at the same time.
#[test]
fn what_is_written_after_a_reset_is_not_durable_before_it() {
    for before in 0..8 {
        for cache in [CacheMode::Off, CacheMode::Volatile] {
            let mut host = large_pages(cache);
            append(&mut host, 0, 6, true).unwrap();
            // planes that are busy finish their next programs later
            for _ in 0..before {
                append_now(&mut host, 5, 4, false);
            }
            manage_now(&mut host, 0, ZoneAction::Reset);
            let done_ns = append_now(&mut host, 0, 1, true);
            cut_at(&mut host, done_ns, &mut PowerLoss::all(Outcome::NotStarted));
            assert_eq!(written(&host, 0), 1, "{cache:?}, after {before}");
            check(&mut host, 0);
        }
    }
}

/// A tail takes the place of one before the reset. If a cut undoes the reset, that one is still there.
#[test]
fn a_reset_that_a_cut_undoes_has_taken_no_tail_with_it() {
    let mut undone = 0;
    for seed in 0..100 {
        let mut host = large_pages(CacheMode::Volatile);
        append(&mut host, 0, 6, true).unwrap();
        for _ in 0..seed % 8 {
            append_now(&mut host, 5, 4, false);
        }
        manage_now(&mut host, 0, ZoneAction::Reset);
        let done_ns = append_now(&mut host, 0, 1, true);
        let at_ns = host.now_ns + (done_ns - host.now_ns) * (seed + 1) / 101;
        cut_at(&mut host, at_ns, &mut PowerLoss::seeded(seed));
        let found = written(&host, 0);
        assert!([0, 1, 6].contains(&found), "seed {seed}: {found} units");
        undone += u32::from(found == 6);
        check(&mut host, 0);
    }
    assert!(undone > 10, "{undone} resets were undone");
}

/// A cut leaves some pages of a zone in a new block and all in the old one, which counts. Then the new one is used for other things.
#[test]
fn a_block_that_counts_after_a_cut_keeps_its_data_when_copies_of_them_are_erased() {
    let mut copied = 0;
    for seed in 0..60 {
        let mut host = host(CacheMode::Volatile);
        let loss = &mut PowerLoss::seeded(seed);
        append(&mut host, 0, 17, true).unwrap();
        append(&mut host, 0, 10, false).unwrap();
        let at_ns = host.now_ns + 100_000;
        cut_at(&mut host, at_ns, loss);
        for _ in 0..3 {
            // power fails while pages move
            host.device.cut_after(Some(2 + seed % 4));
            let before = host.device.smart().counters.flash_units.copyback;
            while append(&mut host, 0, 1, false).is_ok() {}
            copied += host.device.smart().counters.flash_units.copyback - before;
            host.device.cut_after(None);
            host.device.power_on(loss).unwrap();
            host.now_ns = host.device.time_ns();
        }
        for round in 0..6 {
            (0..200).for_each(|lpn| host.write(lpn, round));
        }
        check(&mut host, 0);
    }
    assert!(copied > 0, "nothing moved");
}

/// Pages moved out of a block that failed a program; it is out of use, and a cut undoes the copies.
#[test]
fn a_retired_block_that_a_cut_gives_back_to_a_zone_is_not_opened_again() {
    let mut given_back = 0;
    for seed in 0..100 {
        let mut profile = profile(CacheMode::Volatile);
        profile.over_provisioning_percent = 300.0;
        let mut host = Host::new(&profile);
        append(&mut host, 0, 13, true).unwrap();
        let faults = Faults { program_failure_ppm: 200_000, seed, ..Faults::default() };
        host.device.set_faults(faults).unwrap();
        append_now(&mut host, 0, 3, false);
        // the next command retires it
        append_now(&mut host, 1, 1, false);
        host.device.set_faults(Faults::default()).unwrap();
        given_back += u32::from(host.device.smart().counters.program_failures > 0);
        let at_ns = host.now_ns + 10_000;
        cut_at(&mut host, at_ns, &mut PowerLoss::all(Outcome::NotStarted));
        check(&mut host, 0);
        let rest = 32 - written(&host, 0);
        append(&mut host, 0, if seed % 2 == 0 { 1 } else { rest }, false).unwrap();
        check(&mut host, 0);
        for _ in 0..6 {
            for zone in 0..6 {
                manage(&mut host, zone, ZoneAction::Reset).unwrap();
                append(&mut host, zone, 32, false).unwrap();
            }
        }
        host.device.audit();
    }
    assert!(given_back > 20, "{given_back} blocks failed");
}

/// A zone that is full, finished or reset may be active again after a cut. No other takes its place before that is over.
#[test]
fn a_cut_leaves_no_more_active_zones_than_there_may_be() {
    for seed in 0..300 {
        for cache in [CacheMode::Off, CacheMode::Volatile] {
            let mut profile = profile(cache);
            profile.zones = Some(ZonesProfile { max_open: 1, max_active: 1, ..ZONES });
            let mut host = Host::new(&profile);
            append(&mut host, 0, 30, true).unwrap();
            match seed % 3 {
                0 => {
                    append_now(&mut host, 0, 2, false);
                }
                1 => manage_now(&mut host, 0, ZoneAction::Finish),
                _ => manage_now(&mut host, 0, ZoneAction::Reset),
            }
            append_now(&mut host, 1, 1 + (seed / 3 % 3) as u32, seed % 2 == 0);
            append_now(&mut host, 1, 2, false);
            let end_ns = host.device.time_ns();
            let at_ns = host.now_ns + (end_ns - host.now_ns) * (seed % 10) / 10;
            cut_at(&mut host, at_ns, &mut PowerLoss::seeded(seed));
            let active = host.device.zones().iter().filter(|state| state.condition.is_active()).count();
            assert!(active <= 1, "{cache:?} {seed}: {:?}", host.device.zones());
        }
    }
}

/// ZNS Command Set, section 3.4.3: Select All.
#[test]
fn all_closed_zones_are_opened_or_none() {
    let mut host = host(CacheMode::Volatile);
    for zone in 0..3 {
        append(&mut host, zone, 1, false).unwrap();
    }
    let open_all =
        |host: &mut Host| host.submit(Command::ZoneManage { zone: None, action: ZoneAction::Open }).map(drop);
    let conditions = |host: &Host| [0, 1, 2].map(|zone| condition(host, zone));
    host.submit(Command::ZoneManage { zone: None, action: ZoneAction::Close }).unwrap();
    let refusal = |zone| Err(Status::Zone(ZoneRefusal::TooManyOpen { zone: ZoneId(zone), limit: 2 }));
    assert_eq!((open_all(&mut host), conditions(&host)), (refusal(2), [ZoneCondition::Closed; 3]));
    manage(&mut host, 0, ZoneAction::Open).unwrap();
    manage(&mut host, 2, ZoneAction::Open).unwrap();
    assert_eq!(open_all(&mut host), refusal(1), "the host has opened as many as it may");
    manage(&mut host, 0, ZoneAction::Finish).unwrap();
    open_all(&mut host).unwrap();
    let (open, full) = (ZoneCondition::ExplicitlyOpen, ZoneCondition::Full);
    assert_eq!(conditions(&host), [full, open, open]);
}

/// A tail whose page is full is garbage, but mapped: collection moves it, after the page has been erased as well.
#[test]
fn a_tail_can_be_moved_when_the_page_that_it_became_part_of_is_erased() {
    for access in [Access::Write, Access::Ordered] {
        let mut profile = profile(CacheMode::Volatile);
        profile.flash.page_bytes = 16384;
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        Device::create(&image, &profile).unwrap().shutdown(0).unwrap();
        for round in 0..12 {
            let device = Device::open_as(&image, access).unwrap();
            let mut host = Host { now_ns: device.time_ns(), device };
            // moves the tails of the round before
            for index in 0..400_u32 {
                host.write(index.wrapping_mul(2_654_435_761) % 256, round);
            }
            for zone in 0..3 {
                append(&mut host, zone, 1, true).unwrap();
                append(&mut host, zone, 3, false).unwrap();
                manage(&mut host, zone, ZoneAction::Reset).unwrap();
            }
            // erases the pages that they became part of
            for zone in (3..6).cycle().take(30) {
                append(&mut host, zone, 64, false).unwrap();
                manage(&mut host, zone, ZoneAction::Reset).unwrap();
            }
            host.device.audit();
            host.device.put_away(host.now_ns).unwrap();
        }
    }
}
