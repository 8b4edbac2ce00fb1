//! Traces made here, replayed on small drives.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tantalum::{FdpProfile, Isolation, Profile};
use tantalum_image::SplitMix64;
use tantalum_replay::{
    Columns, Load, OperationNames, Outcome, Pace, ReplayError, RequestKind, Scale, Settings, Source, replay,
    text, write_report,
};
use tantalum_report::Monitor;
use tantalum_workloads::bench::Condition;
use tempfile::{NamedTempFile, TempDir};

const MIB: u64 = 1 << 20;

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn settings(path: &Path) -> Settings {
    let profile = Profile { capacity_bytes: 64 * MIB, ..Profile::load("femu-2021").unwrap() };
    Settings {
        load: Load::Trace(Source::of(path)),
        profile,
        condition: Condition::Fresh,
        pace: None,
        scale: Scale::Fit,
        seed: 1,
    }
}

fn run(trace: &str, change: impl FnOnce(&mut Settings)) -> Result<Outcome, ReplayError> {
    let file = file(trace);
    let mut settings = settings(file.path());
    change(&mut settings);
    replay(&settings, &Monitor::silent())
}

fn of(outcome: &Outcome, kind: RequestKind) -> &tantalum_replay::Requests {
    outcome.requests.iter().find(|requests| requests.kind == kind).unwrap()
}

fn figure(outcome: &Outcome, name: &str) -> f64 {
    let figures =
        outcome.binds.iter().find(|figures| figures.columns.iter().any(|column| column == name)).unwrap();
    figures.rows[0].ours[figures.columns.iter().position(|column| column == name).unwrap()]
}

/// Requests in Alibaba's format: a time in microseconds, a letter, a unit and how many.
fn alibaba(requests: impl IntoIterator<Item = (u64, char, u64, u64)>) -> String {
    let line = |(at, letter, unit, units)| format!("0,{letter},{},{},{at}\n", unit * 4096, units * 4096);
    requests.into_iter().map(line).collect()
}

#[test]
fn volumes_are_written_with_handles_in_turn() {
    let trace: String =
        (0..300).map(|at| format!("{},W,{},4096,{at}\n", [7, 3, 9, 7][at % 4], at * 4096)).collect();
    let with = |handles: u32| {
        run(&trace, |settings| {
            let fdp = FdpProfile { handles, isolation: Isolation::Persistently };
            settings.profile.fdp = (handles > 0).then_some(fdp);
        })
        .unwrap()
    };
    let units = |outcome: &Outcome| -> Vec<u64> {
        outcome.handles.iter().map(|cost| cost.host_units_written).collect()
    };
    // volume 7 is the first, 3 the second, 9 the third
    assert_eq!((units(&with(2)), units(&with(3))), (vec![225, 75], vec![150, 75, 75]));
    let none = with(0);
    assert!(none.handles.is_empty() && !text::of(&none).contains("by reclaim unit handle"));
    assert!(text::of(&with(2)).contains("by reclaim unit handle"));
}

#[test]
fn the_same_requests_in_any_format_do_the_same() {
    let requests = [(0u64, 'W', 5u64, 2u64), (900, 'R', 5, 1), (2000, 'W', 100, 4), (2500, 'R', 1000, 1)];
    let fio: String = requests
        .iter()
        .map(|(at, letter, unit, units)| {
            let name = if *letter == 'R' { "read" } else { "write" };
            format!("{at} /dev/x {name} {} {}\n", unit * 4096, units * 4096)
        })
        .collect();
    let fio = format!("fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n{fio}2600 /dev/x close\n");
    let blkparse: String = requests
        .iter()
        .enumerate()
        .map(|(number, (at, letter, unit, units))| {
            let (sector, sectors) = (unit * 8, units * 8);
            let queued =
                format!("  8,0  1  {number}  0.{at:06}000  9  Q  {letter}S {sector} + {sectors} [fio]\n");
            format!("{queued}{}", queued.replace("  Q  ", "  D  "))
        })
        .collect();
    let blkparse =
        format!("{blkparse}CPU1 (8,0):\n Reads Queued:           2,        8KiB\n\nTotal (8,0):\n");
    let msr: String = requests
        .iter()
        .map(|(at, letter, unit, units)| {
            let name = if *letter == 'R' { "Read" } else { "Write" };
            format!(
                "{},web,0,{name},{},{},17\n",
                128_166_372_000_000_000 + at * 10,
                unit * 4096,
                units * 4096
            )
        })
        .collect();
    let mut outcomes: Vec<Outcome> = [alibaba(requests), fio, blkparse, msr]
        .iter()
        .map(|trace| run(trace, |_| {}).unwrap_or_else(|error| panic!("{trace}: {error}")))
        .collect();
    outcomes.extend(others(&requests));
    for outcome in &outcomes {
        assert_eq!(of(outcome, RequestKind::Read).count, 2);
        assert_eq!(of(outcome, RequestKind::Write).bytes, 6 * 4096);
        assert_eq!(outcome.trace.seconds, Some(0.0025), "{:?}", outcome.trace);
        assert_eq!(outcome.seconds, outcomes[0].seconds);
        let us = |kind| of(outcome, kind).latency_us;
        assert_eq!(us(RequestKind::Read), of(&outcomes[0], RequestKind::Read).latency_us);
        assert_eq!(us(RequestKind::Write), of(&outcomes[0], RequestKind::Write).latency_us);
        assert_eq!(outcome.counters, outcomes[0].counters);
    }
}

/// What the requests do in the other formats that have times.
fn others(requests: &[(u64, char, u64, u64)]) -> Vec<Outcome> {
    type Line = fn(u64, char, u64, u64) -> String;
    let formats: [(&str, &str, Line); 6] = [
        ("spc", "", |us, letter, unit, units| {
            format!("0,{},{},{letter},0.{us:06}\n", unit * 8, units * 4096)
        }),
        ("systor", "", |us, letter, unit, units| {
            format!("1456135200.{us:06}000,0.1,{letter},3,{},{}\n", unit * 4096, units * 4096)
        }),
        ("mqsim", "", |us, letter, unit, units| {
            format!("{} 0 {} {} {}\n", us * 1000, unit * 8, units * 8, u8::from(letter == 'R'))
        }),
        (
            "etw",
            "BeginHeader\n DiskRead, TimeStamp, ByteOffset, IOSize, ElapsedTime\n DiskWrite, TimeStamp, ByteOffset, IOSize, ElapsedTime\nEndHeader\n",
            |us, letter, unit, units| {
                let name = if letter == 'R' { "DiskRead" } else { "DiskWrite" };
                format!("{name}, {}, {:#x}, {:#x}, 70\n", us + 100, unit * 4096, units * 4096)
            },
        ),
        ("columns", "", |us, letter, unit, units| format!("{us}\t{letter}\t{}\t{units}\n", unit)),
        ("blkparse -f", "", |us, letter, unit, units| {
            format!("D {letter}S {} 0.{us:06}000 {}\n", unit * 8, units * 8)
        }),
    ];
    let text = formats.iter().map(|(name, header, line)| {
        let lines: String =
            requests.iter().map(|(us, letter, unit, units)| line(*us, *letter, *unit, *units)).collect();
        (*name, format!("{header}{lines}").into_bytes())
    });
    let long = |long: u64| long.to_le_bytes().to_vec();
    let word = |word: u32| word.to_le_bytes().to_vec();
    let record = |(us, letter, unit, units): &(u64, char, u64, u64)| {
        let action = 7 | (1 << 6 | if *letter == 'R' { 1 } else { 2 }) << 16;
        let head = [word(0x6561_7407), word(1), long(us * 1000), long(unit * 8), word(*units as u32 * 4096)];
        [head.concat(), word(action), word(7), word(8 << 20), long(0)].concat()
    };
    let command = |(us, letter, unit, units): &(u64, char, u64, u64)| {
        let command = 0x0203_0000 | if *letter == 'R' { 0x28 } else { 0x2a };
        let head = [word(command), word(1), word(*units as u32 * 4096), word(1)].concat();
        [head, long(unit * 8), long(*us), long(9)].concat()
    };
    let binary = [
        ("blktrace", requests.iter().flat_map(record).collect::<Vec<u8>>()),
        ("cloudphysics", requests.iter().flat_map(command).collect()),
    ];
    let run = |(name, bytes): (&str, Vec<u8>)| {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let mut source = Source::of(file.path());
        match name {
            "mqsim" => source.format = Some(name.parse().unwrap()),
            "blkparse -f" => source.blkparse_format = Some("%a %d %S %T.%t %n".parse().unwrap()),
            "columns" => {
                let names = "time,op,offset,units".parse().unwrap();
                let time = Some("us".parse().unwrap());
                source.columns = Some(
                    Columns::new(names, time, "4K".parse().unwrap(), OperationNames::default()).unwrap(),
                );
            }
            _ => {}
        }
        let settings = Settings { load: Load::Trace(source), ..settings(file.path()) };
        let outcome = replay(&settings, &Monitor::silent()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome.trace.format.unwrap().name(), name.split(' ').next().unwrap());
        outcome
    };
    text.chain(binary).map(run).collect()
}

#[test]
fn entries_that_say_too_little_are_counted_and_told() {
    let systor = "1.000,0.1,W,0,0,4096\n1.001,0.1,,0,4096,4096\n1.002,0.1,R,0,0,4096\n";
    let outcome = run(systor, |_| {}).unwrap();
    assert_eq!((outcome.trace.left_out, outcome.trace.requests), (1, 2));
    assert!(text::of(&outcome).contains("warning: 1 entries of the trace were left out"));
    let twice = "fio version 3 iolog\n0 f write 0 4096\n9 f write 0 4096\n".repeat(2);
    let outcome = run(&twice, |_| {}).unwrap();
    assert_eq!(outcome.trace.seconds, Some(0.000_018));
    assert!(
        outcome.warnings.iter().any(|warning| warning.contains("2 logs of fio")),
        "{:?}",
        outcome.warnings
    );
}

#[test]
fn an_open_loop_keeps_the_times_and_a_closed_one_the_depth() {
    let trace = alibaba((0..200).map(|at| (at * 1000, 'W', at * 7 % 5000, 1)));
    let open = run(&trace, |_| {}).unwrap();
    assert!((open.seconds - 0.199).abs() < 0.001, "{}", open.seconds);
    let fast = run(&trace, |settings| settings.pace = Some(Pace::Open { speed: 2.0 })).unwrap();
    assert!((fast.seconds - 0.0995).abs() < 0.001, "{}", fast.seconds);
    for queue_depth in [1, 4, 32] {
        let closed = run(&trace, |settings| settings.pace = Some(Pace::Closed { queue_depth })).unwrap();
        let under_way = figure(&closed, "writes");
        let depth = f64::from(queue_depth);
        assert!(under_way > depth * 0.8 && under_way <= depth * 1.001, "{under_way} of {queue_depth}");
        assert!(closed.seconds < open.seconds);
    }
}

#[test]
fn version_2_of_fio_goes_one_after_the_other_and_waits() {
    let trace = "fio version 2 iolog\n/f add\n/f open\n/f write 0 4096\n/f sync 0 0\n/f wait 5 0\n/f read 0 4096\n/f close\n";
    let outcome = run(trace, |_| {}).unwrap();
    assert_eq!((outcome.replay.queue_depth, outcome.trace.seconds), (Some(1), None));
    assert!(outcome.seconds > 0.005 && outcome.seconds < 0.006, "{}", outcome.seconds);
    assert_eq!((of(&outcome, RequestKind::Flush).count, of(&outcome, RequestKind::Flush).bytes), (1, 0));
    let error =
        run(trace, |settings| settings.pace = Some(Pace::Open { speed: 2.0 })).unwrap_err().to_string();
    assert!(error.contains("--speed 2: the requests have no times"), "{error}");
}

#[test]
fn part_of_a_unit_is_read_before_it_is_written() {
    let sectors = |length: u64| {
        let lines: String = (0..50)
            .map(|number| format!("0,W,{},{length},{}\n", number * 16_384 + 512, number * 10_000))
            .collect();
        run(&lines, |settings| settings.condition = Condition::Filled).unwrap()
    };
    let (part, whole) = (
        sectors(512),
        run(&alibaba((0..50).map(|at| (at * 10_000, 'W', at * 4, 1))), |settings| {
            settings.condition = Condition::Filled;
        })
        .unwrap(),
    );
    assert_eq!((part.unaligned.writes, part.unaligned.units_read_to_write), (50, 50));
    assert_eq!((whole.unaligned.writes, whole.unaligned.units_read_to_write), (0, 0));
    assert_eq!(part.counters.host_units_written, 50);
    // femu-2021 reads a page in 40 us
    let slower_us =
        of(&part, RequestKind::Write).latency_us.p50 - of(&whole, RequestKind::Write).latency_us.p50;
    assert!((40.0..60.0).contains(&slower_us), "{slower_us}");
    let over_two = sectors(4096);
    assert_eq!((over_two.unaligned.units_read_to_write, over_two.counters.host_units_written), (100, 100));
}

#[test]
fn deallocation_is_of_whole_units_and_a_preflush_comes_before_its_write() {
    let event = |number: u64, rwbs: &str, sector: u64, sectors: u64| {
        format!("259,0 0 {number} 0.{number:09} 1 D {rwbs} {sector} + {sectors} [x]\n")
    };
    let trace =
        [event(1, "W", 0, 64), event(2, "D", 4, 24), event(3, "D", 33, 6), event(4, "FWFS", 64, 8)].concat();
    let outcome = run(&trace, |_| {}).unwrap();
    assert_eq!((outcome.unaligned.trims, of(&outcome, RequestKind::Trim).count), (2, 2));
    // units 1 and 2 of sectors 4 to 28; none of sectors 33 to 39
    assert_eq!(of(&outcome, RequestKind::Write).count, 2);
    let flushes = outcome.counters.flushes;
    assert_eq!(flushes, 2, "one before the write, one at the end");
    let without = run(&trace.replace("FWFS", "WFS"), |_| {}).unwrap();
    let longest = |outcome| of(outcome, RequestKind::Write).latency_us.max;
    assert!(longest(&outcome) > longest(&without), "the flush is part of the write's time");
}

#[test]
fn an_aged_drive_amplifies_and_wears() {
    let mut random = SplitMix64(3);
    let trace = alibaba((0..20_000).map(|at| (at * 1000, 'W', random.below(16_000), 1)));
    let fresh = run(&trace, |_| {}).unwrap();
    let aged = run(&trace, |settings| settings.condition = Condition::Aged).unwrap();
    assert!(aged.amplification > fresh.amplification, "{:?} {:?}", aged.amplification, fresh.amplification);
    assert!(aged.counters.flash_units.copyback > 0 && aged.drive.aged_amplification.unwrap() > 1.2);
    assert!(aged.wear.mean_after > aged.wear.mean_before && aged.wear.mean_before > 1.0);
    assert!(aged.life.days.unwrap() < fresh.life.days.unwrap());
    assert!(figure(&aged, "by collection") > figure(&fresh, "by collection"));
}

#[test]
fn a_replay_follows_from_its_seed() {
    let mut random = SplitMix64(9);
    let trace = alibaba((0..5000).map(|at| {
        let letter = if random.below(3) == 0 { 'R' } else { 'W' };
        (at * 20, letter, random.below(40_000), 1 + random.below(8))
    }));
    let file = file(&trace);
    let json = |seed| {
        let settings = Settings { seed, condition: Condition::Aged, ..settings(file.path()) };
        serde_json::to_string(&replay(&settings, &Monitor::silent()).unwrap()).unwrap()
    };
    assert_eq!(json(1), json(1));
    assert_ne!(json(1), json(2));
}

#[test]
fn addresses_beyond_the_drive_are_scaled_or_refused() {
    let far = (1u64 << 40) / 4096;
    let trace = alibaba((0..100).map(|at| (at * 100, 'W', far + at, 1)));
    let fit = run(&trace, |_| {}).unwrap();
    assert!(
        fit.replay.addresses.contains("1 MiB that the trace touches are placed together"),
        "{}",
        fit.replay.addresses
    );
    let wrap = run(&trace, |settings| settings.scale = Scale::Wrap).unwrap();
    assert!(wrap.replay.addresses.contains("modulo the drive's 64 MiB"), "{}", wrap.replay.addresses);
    let error = run(&trace, |settings| settings.scale = Scale::None).unwrap_err();
    assert!(error.to_string().contains(", line 1: the request ends at byte"), "{error}");
    let ReplayError::BeyondCapacity { line: 1, end_bytes, .. } = error else { panic!("{error}") };
    assert_eq!(end_bytes, (far + 1) * 4096);
}

#[test]
fn ctrl_c_tells_what_there_is() {
    let trace = alibaba((0..5000).map(|at| (at * 20, 'W', at, 1)));
    let file = file(&trace);
    let cancelled = Arc::new(AtomicBool::new(true));
    // the first look of the replay itself is after 1024 requests; reading looks after 4096
    let load = Load::Trace(Source { most_requests: Some(4000), ..Source::of(file.path()) });
    let settings = Settings { load, ..settings(file.path()) };
    let outcome = replay(&settings, &Monitor::new(cancelled)).unwrap();
    assert!(matches!(outcome.ended_early(), Some(ReplayError::Interrupted(_))));
    let why = outcome.incomplete.as_deref().unwrap();
    assert_eq!(why, "Ctrl-C ended it; 1023 of 4000 requests are done");
    assert!(text::of(&outcome).contains("not complete: Ctrl-C ended it"));
}

#[test]
fn bad_settings_and_traces_are_errors() {
    let trace = alibaba([(0, 'W', 0, 1)]);
    fn no_requests(settings: &mut Settings) {
        let Load::Trace(source) = &mut settings.load else { return };
        source.most_requests = Some(0);
    }
    let with = |change: fn(&mut Settings)| run(&trace, change).unwrap_err().to_string();
    assert!(
        with(|settings| settings.pace = Some(Pace::Open { speed: 0.0 }))
            .contains("--speed 0: it must be above 0")
    );
    assert!(with(|settings| settings.pace = Some(Pace::Open { speed: f64::NAN })).contains("--speed NaN"));
    assert!(
        with(|settings| settings.pace = Some(Pace::Closed { queue_depth: 0 })).contains("--queue-depth 0")
    );
    assert!(with(no_requests).contains("--requests 0"));
    assert_eq!(
        with(|settings| settings.profile = Profile::load("zns").unwrap()),
        "--profile zns: requests to blocks say nothing of zones: use a profile without [zones]"
    );
    let none = run("fio version 3 iolog\n0 f add\n", |_| {}).unwrap_err();
    assert!(matches!(none, ReplayError::NoRequests { .. }), "{none}");
    let line = run("0,W,0,4096,1\n0,W,0,4096\n", |_| {}).unwrap_err().to_string();
    assert!(line.contains("line 2: expected a time in microseconds in the fifth field"), "{line}");
}

/// Requests as long and as far as a format can say.
#[test]
fn hostile_requests_are_bounded() {
    let trace = format!(
        "fio version 3 iolog\n0 f write 0 512\n1 f trim 0 {}\n2 f trim {} 1\n3 f read 18446744073709551104 511\n4 f write 7 0\n5 f write {} 9000\n",
        u64::MAX,
        u64::MAX - 1,
        1u64 << 63,
    );
    for scale in [Scale::Fit, Scale::Wrap] {
        let outcome = run(&trace, |settings| settings.scale = scale).unwrap();
        assert!(outcome.incomplete.is_none());
        assert!(outcome.unaligned.empty >= 1, "{:?}", outcome.unaligned);
    }
    assert!(matches!(
        run(&trace, |settings| settings.scale = Scale::None),
        Err(ReplayError::BeyondCapacity { .. })
    ));
    // many volumes, and a data request of 4 GiB on a drive of 64 MiB
    let volumes: String = (0..1000).map(|volume| format!("{volume},W,0,4096,{volume}\n")).collect();
    let outcome = run(&format!("{volumes}0,R,0,{},5000\n", 1u64 << 32), |_| {}).unwrap();
    assert_eq!((outcome.trace.volumes, outcome.trace.volume_names.len()), (1000, 8));
    assert_eq!(of(&outcome, RequestKind::Read).bytes, 1 << 32);
}

#[test]
fn the_page_has_plots_and_says_what_was_done() {
    let folder = TempDir::new().unwrap();
    let page = folder.path().join("replay.html");
    let trace = alibaba((0..300).map(|at| (at * 100, if at % 2 == 0 { 'W' } else { 'R' }, at, 1)));
    let outcome = run(&trace, |_| {}).unwrap();
    write_report(&outcome, &page).unwrap();
    let html = std::fs::read_to_string(page).unwrap();
    assert_eq!(html.matches("<svg").count(), 4);
    for words in [
        "300 requests",
        "as in the trace",
        "99.9 %",
        "What binds",
        "may still be written",
        "<p class=\"headline\">",
        " to flash: ",
        " 99 % took at most: reads ",
    ] {
        assert!(html.contains(words), "{words}");
    }
}

#[test]
fn figures_that_flatter_the_drive_come_with_a_warning() {
    let said = |outcome: &Outcome, words: &str| {
        let says = outcome.warnings.iter().any(|warning| warning.contains(words));
        assert_eq!(text::of(outcome).contains(words), says);
        says
    };
    let (cached, unwritten) = ("of a drive in long use", "had never been written");
    // with a cache of 8 MiB
    let tlc = |settings: &mut Settings| {
        settings.profile = Profile { capacity_bytes: 64 * MIB, ..Profile::load("tlc-nvme").unwrap() };
    };
    // the same eight units again and again: they stay in the cache, whether all of it would fit there or not
    for count in [100, 4000] {
        let few = alibaba((0..count).map(|at| (at * 100, 'W', 1 + at % 8, 1)));
        let outcome = run(&few, tlc).unwrap();
        assert!(outcome.amplification.unwrap() < 1.0 && said(&outcome, cached), "{:?}", outcome.warnings);
    }
    let each_once = alibaba((0..1000).map(|at| (at * 100, 'W', at, 1)));
    assert!(said(&run(&each_once, tlc).unwrap(), "holds all of it"));
    // more than the cache holds, and each unit once
    let many = alibaba((0..12_000).map(|at| (at * 1000, 'W', at, 1)));
    let outcome = run(&many, tlc).unwrap();
    assert!(!said(&outcome, cached) && outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    let reads = alibaba((0..100).map(|at| (at * 100, 'R', at, 1)));
    let outcome = run(&reads, |_| {}).unwrap();
    assert!(said(&outcome, unwritten) && outcome.warnings[0].starts_with("99 of 100 units read"));
    let outcome = run(&reads, |settings| settings.condition = Condition::Filled).unwrap();
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
}
