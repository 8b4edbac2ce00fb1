//! The command as a user sees it: its output, its messages for impossible requests, its exit codes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tantalum::{
    Command as DriveCommand, Device, FdpProfile, Handle, Isolation, Lpn, NamespaceAttributes, NamespaceId,
    Profile, UNIT_BYTES,
};
use tantalum_filesystem::{Content, FileId, Names, NewFile};
use tantalum_lfs::{Cleaning, LfsKind, LogFs};
use tempfile::TempDir;

fn tantalum(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tantalum")).args(arguments).current_dir(dir).output().unwrap()
}

/// Runs a command that must fail, and returns its message.
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = tantalum(dir, arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed to standard output");
    assert!(!message.contains("panicked"), "{message}");
    message
}

fn printed(output: Output) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{message}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn unknown_profile_lists_the_known_ones() {
    let dir = TempDir::new().unwrap();
    let message = refused(dir.path(), &["bench", "--pattern", "randread", "--profile", "quick"]);
    assert_eq!(
        message,
        "error: no profile named \"quick\"; use tlc-nvme, tlc-nvme-plp, fast, femu-2021, openssd-barefoot, \
         durassd, kaml-board, pebblessd, willow, zns, or the path of a TOML file\n"
    );
}

#[test]
fn unknown_mode_and_pattern_list_the_known_ones() {
    let dir = TempDir::new().unwrap();
    let message = refused(dir.path(), &["compare", "sqlite", "--modes", "wal,turbo"]);
    assert!(
        message.contains("turbo") && message.contains("rollback, wal, x-ftl, atomic, share, sw-wal"),
        "{message}"
    );
    let message = refused(dir.path(), &["bench", "--pattern", "write"]);
    assert!(message.contains("use one of seqwrite, randwrite, randread, mixed"), "{message}");
}

#[test]
fn malformed_profile_names_file_line_and_field() {
    let dir = TempDir::new().unwrap();
    let good =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../ssd/device/profiles/tlc-nvme.toml"))
            .unwrap();
    let bad = good.replace("dies_per_channel = 2", "dies_per_channel = \"two\"");
    let line = 1 + bad.lines().position(|line| line.contains("\"two\"")).unwrap();
    fs::write(dir.path().join("my.toml"), bad).unwrap();
    let message = refused(dir.path(), &["create", "drive.tant", "--profile", "my.toml"]);
    let expected = format!("error: profile my.toml, line {line}, flash.dies_per_channel: ");
    assert!(message.starts_with(&expected), "{message}");
    assert!(!dir.path().join("drive.tant").exists());
}

#[test]
fn impossible_capacity_and_over_provisioning_say_what_would_be_right() {
    let dir = TempDir::new().unwrap();
    let cases: [(&[&str], &str); 9] = [
        (
            &["create", "d.tant", "--capacity", "0"],
            "--capacity: capacity_bytes is 0: it must be a multiple of 4 KiB",
        ),
        (&["create", "d.tant", "--capacity", "1000001"], "it must be a multiple of 4 KiB"),
        (&["create", "d.tant", "--capacity", "1.3G"], "such as 1363148K"),
        (&["create", "d.tant", "--capacity", "large"], "a size is a number and a unit"),
        (
            &["create", "d.tant", "--over-provisioning-percent", "-3"],
            "--over-provisioning-percent: over_provisioning_percent is -3: it must be above 0 and at most 400",
        ),
        (
            &["create", "d.tant", "--atomic-write", "6KiB"],
            "--atomic-write: 6144 bytes: it must be whole units of 4 KiB, from 4 KiB to 256 KiB",
        ),
        (
            &["create", "d.tant", "--atomic-write", "1M"],
            "--atomic-write: 1048576 bytes: it must be whole units of 4 KiB, from 4 KiB to 256 KiB",
        ),
        (
            &["create", "d.tant", "--index-dram", "0"],
            "--index-dram: limits.index_dram_bytes is 0: it must be at least 1",
        ),
        (&["bench", "--pattern", "randread", "--operations", "0"], "--operations 0: it must be at least 1"),
    ];
    for (arguments, expected) in cases {
        let message = refused(dir.path(), arguments);
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a refused command left something");
}

#[test]
fn a_created_image_tells_what_it_is() {
    let dir = TempDir::new().unwrap();
    let drive = ["--profile", "femu-2021", "--capacity", "64MiB", "--over-provisioning-percent", "28"];
    let limits = ["--index-dram", "1MiB", "--atomic-write", "16KiB"];
    let create = [&["create", "d.tant"][..], &limits, &drive].concat();
    assert_eq!(
        printed(tantalum(dir.path(), &create)),
        "d.tant: femu-2021, 64 MiB with 28 % over-provisioning\n"
    );
    for _ in 0..2 {
        let text = printed(tantalum(dir.path(), &["info", "d.tant"]));
        assert!(text.contains("16,384 units of 4 KiB, 28 % over-provisioning"), "{text}");
        assert!(text.contains("atomic writes            up to 16 KiB, wherever they lie"), "{text}");
        assert!(text.contains("last shutdown            clean; 0 unsafe so far"), "{text}");
        let json = printed(tantalum(dir.path(), &["info", "d.tant", "--json"]));
        let info: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(info["profile"]["name"], "femu-2021");
        assert_eq!(info["capacity_units"], 16384);
        assert_eq!(info["profile"]["limits"]["index_dram_bytes"], 1 << 20);
        assert_eq!(info["profile"]["limits"]["atomic_write_units"], 4);
        assert_eq!(info["namespaces"], serde_json::json!([]));
        assert!(text.contains("of 0 namespaces: 0 bytes in DRAM, 0 on flash only; DRAM for 1 MiB"), "{text}");
    }
    let message = refused(dir.path(), &create);
    assert!(message.starts_with("error: image d.tant already exists"), "{message}");
}

/// A small drive has more over-provisioning and smaller blocks than its profile asks for, and figures depend on them.
#[test]
fn every_report_tells_the_flash_that_a_drive_has() {
    let dir = TempDir::new().unwrap();
    let trace: String = (0..200).map(|unit| format!("{}.0,write,{},4096\n", unit, unit * 4096)).collect();
    fs::write(dir.path().join("trace.csv"), trace).unwrap();
    let commands: [&[&str]; 4] = [
        &["create", "d.tant"],
        &["bench", "--pattern", "seqwrite", "--operations", "1000"],
        &["replay", "trace.csv", "--columns", "time,op,offset,bytes", "--time-unit", "s"],
        &["compare", "sqlite", "--modes", "wal", "--rows", "100", "--operations", "50"],
    ];
    for command in commands {
        let arguments = [command, &["--capacity", "128MiB"]].concat();
        let output = tantalum(dir.path(), &arguments);
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        let has = "note: the drive has 9.4 % over-provisioning where 7 % were asked for";
        assert!(notes.contains(has) && notes.contains("blocks have 8 pages"), "{command:?}: {notes}");
        // only the comparison ages its drive
        let is_aged = command[0] == "compare";
        assert_eq!(
            notes.contains("note: at most 75 % of the drive are filled"),
            is_aged,
            "{command:?}: {notes}"
        );
        let text = printed(output);
        assert!(text.contains("9.4 % over-provisioning (7 % asked)"), "{command:?}: {text}");
    }
    let bench = ["bench", "--pattern", "seqwrite", "--operations", "100", "--capacity", "128MiB", "--json"];
    let figures: serde_json::Value = serde_json::from_str(&printed(tantalum(dir.path(), &bench))).unwrap();
    assert_eq!(figures["geometry"]["pages_per_block"], 8);
    assert!((figures["effective_over_provisioning_percent"].as_f64().unwrap() - 9.375).abs() < 1e-9);
}

#[test]
fn a_capacity_that_is_too_small_is_refused_with_one_that_would_do() {
    let dir = TempDir::new().unwrap();
    let create = |capacity: &str| {
        tantalum(dir.path(), &["create", "d.tant", "--profile", "tlc-nvme-plp", "--capacity", capacity])
    };
    let message = refused(dir.path(), &["create", "d.tant", "--profile", "tlc-nvme-plp", "--capacity", "8M"]);
    let (_, would_do) =
        message.split_once("; raise the over-provisioning, or use --capacity ").expect(&message);
    let would_do = would_do.strip_suffix("M or more\n").expect(&message).parse::<u64>().unwrap();
    assert!(message.contains("good flash blocks are too few") && !dir.path().join("d.tant").exists());
    assert_eq!(create(&format!("{}M", would_do - 1)).status.code(), Some(2), "the smallest is named");
    printed(create(&format!("{would_do}M")));
}

/// With so little over-provisioning each capacity has too little flash.
#[test]
fn a_capacity_is_named_only_if_one_would_do() {
    let dir = TempDir::new().unwrap();
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/../ssd/device/profiles/tlc-nvme.toml");
    let text = fs::read_to_string(profile).unwrap();
    let line = text.lines().find(|line| line.starts_with("over_provisioning_percent")).unwrap();
    fs::write(dir.path().join("tight.toml"), text.replace(line, "over_provisioning_percent = 0.01")).unwrap();
    let message = refused(dir.path(), &["create", "d.tant", "--profile", "tight.toml", "--capacity", "4G"]);
    assert!(message.ends_with("; raise the over-provisioning\n"), "{message}");
}

#[test]
fn a_missing_folder_for_temporary_files_is_told_once() {
    let dir = TempDir::new().unwrap();
    for arguments in [&["crash", "run", "--check", "true", "--", "true"][..], &["measure", "--", "true"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
        let output =
            command.args(arguments).current_dir(dir.path()).env("TMPDIR", "/nosuch").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        // above it may be notes about the drive
        assert_eq!(
            said.lines().last().unwrap(),
            "error: no folder for temporary files: /nosuch: No such file or directory (os error 2); set TMPDIR to one that exists",
            "{arguments:?}"
        );
    }
}

#[test]
fn create_of_an_image_that_exists_says_how_to_use_it() {
    let dir = TempDir::new().unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--capacity", "64M"]));
    let before = fs::read(dir.path().join("d.tant")).unwrap();
    let message = refused(dir.path(), &["serve", "d.tant", "--create", "--listen", "127.0.0.1:0"]);
    assert!(message.contains("d.tant already exists; leave out --create to serve it"), "{message}");
    // a mount needs /dev/fuse, and says so first
    fs::create_dir(dir.path().join("m")).unwrap();
    let message = refused(dir.path(), &["mount", "d.tant", "m", "--create"]);
    assert!(message.contains("leave out --create to mount it") || message.contains("/dev/fuse"), "{message}");
    assert!(fs::read(dir.path().join("d.tant")).unwrap() == before, "it was changed");
}

#[test]
fn options_of_a_new_drive_are_refused_for_an_old_one_in_one_line() {
    let dir = TempDir::new().unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--capacity", "64M"]));
    fs::create_dir(dir.path().join("mnt")).unwrap();
    for arguments in [
        &["mount", "d.tant", "mnt", "--capacity", "64M"][..],
        &["mount", "d.tant", "mnt", "--background", "--profile", "durassd"],
        &["serve", "d.tant", "--capacity", "64M"],
    ] {
        let message = refused(dir.path(), arguments);
        assert!(
            message.contains("add --create to make a new image") && message.lines().count() == 1,
            "{message}"
        );
    }
}

/// `stat` of an image that is not in use, as JSON.
fn stat(dir: &Path, more: &[&str]) -> serde_json::Value {
    let arguments = [&["stat", "d.tant", "--json"][..], more].concat();
    serde_json::from_str(&printed(tantalum(dir, &arguments))).unwrap()
}

#[test]
fn an_aged_drive_counts_from_its_ageing_and_tells_its_life() {
    let dir = TempDir::new().unwrap();
    let create = ["create", "d.tant", "--capacity", "128M", "--aged", "--fill", "85"];
    let output = tantalum(dir.path(), &create);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("stay free"), "{output:?}");
    let said = printed(output);
    assert!(said.contains("of other data and aged to write amplification"), "{said}");
    let aged = stat(dir.path(), &[]);
    let (amplification, used) = (&aged["write_amplification"], &aged["life"]["percentage_used"]);
    assert!(amplification.as_f64().unwrap() > 1.3 && used.as_f64().unwrap() > 0.0, "{aged}");
    assert_eq!(aged["change"]["since"], "since reset");
    // Looking at the volume mounts it, in memory.
    let written = aged["change"]["counters"]["host_units_written"].as_u64().unwrap();
    assert!(written < 10, "ageing is no program's work, but {written} units are counted");
    assert!(aged["change"]["life"].is_null(), "too little was written to tell: {aged}");
    assert_eq!(aged["life"]["load_bytes_per_day"], 128 << 20);
    let years = |stat: &serde_json::Value| stat["life"]["years_left"].as_f64().unwrap();
    let half = stat(dir.path(), &["--load", "64M"]);
    assert!((years(&half) / years(&aged) - 2.0).abs() < 1e-6, "{half}");
    let text = printed(tantalum(dir.path(), &["stat", "d.tant"]));
    for line in ["percentage used", "endurance", "life left", "since reset"] {
        assert!(text.contains(line), "{text}");
    }
    let text = printed(tantalum(dir.path(), &["info", "d.tant", "--load", "1G"]));
    assert!(text.contains("years at 1 GiB a day") && text.contains("drive writes a day"), "{text}");

    // A new image with the same name starts its counts from zero.
    fs::remove_file(dir.path().join("d.tant")).unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--capacity", "64M", "--fill", "20"]));
    let filled = stat(dir.path(), &[]);
    assert!(filled["write_amplification"].as_f64().unwrap() < 1.2, "{filled}");
    fs::remove_file(dir.path().join("d.tant")).unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--capacity", "64M"]));
    assert!(!dir.path().join("d.tant.stat").exists());
}

#[test]
fn counters_are_reset_beside_the_image_and_a_damaged_reset_is_told() {
    let dir = TempDir::new().unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--capacity", "64M", "--fill", "50"]));
    fs::remove_file(dir.path().join("d.tant.stat")).unwrap();
    let before = stat(dir.path(), &[]);
    assert!(before.get("change").is_none());
    fs::write(dir.path().join("before.json"), before.to_string()).unwrap();
    printed(tantalum(dir.path(), &["stat", "d.tant", "--reset"]));
    for more in [&[][..], &["--since", "before.json"]] {
        let change = &stat(dir.path(), more)["change"];
        assert_eq!(change["counters"]["host_units_written"], 0, "{change}");
    }
    fs::write(dir.path().join("d.tant.stat"), "{").unwrap();
    let output = tantalum(dir.path(), &["stat", "d.tant"]);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.contains("d.tant.stat is not a report") && said.contains("--reset"), "{said}");
    assert!(printed(output).contains("host units written"));
}

#[test]
fn info_shows_what_was_written_with_each_handle() {
    let dir = TempDir::new().unwrap();
    let fdp = Some(FdpProfile { handles: 4, isolation: Isolation::Persistently });
    let profile = Profile { capacity_bytes: 64 << 20, fdp, ..Profile::load("tlc-nvme").unwrap() };
    fs::write(dir.path().join("drive.toml"), profile.to_toml()).unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--profile", "drive.toml"]));
    let mut device = Device::open(&dir.path().join("d.tant")).unwrap();
    let (lpn, data, now_ns) = (Lpn(5), [7; 2 * UNIT_BYTES], device.time_ns());
    let write = DriveCommand::Write { lpn, data: &data, fua: true, handle: Some(Handle(2)) };
    let done_ns = device.submit(write, now_ns).unwrap().done_ns;
    device.shutdown(done_ns).unwrap();
    let text = printed(tantalum(dir.path(), &["info", "d.tant"]));
    assert!(text.contains("reclaim unit handles     4, always kept apart; a reclaim unit has "), "{text}");
    let line = "handle 2                 2 units written, 0 moved, write amplification 1.00";
    assert!(text.contains(line) && !text.contains("handle 3"), "{text}");
    let json = printed(tantalum(dir.path(), &["info", "d.tant", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(info["handles"]["each"][2]["flash_host_units"], 2);
    profile_is_refused_with_numbers(&dir, profile);
}

#[test]
fn handles_are_given_by_an_option_and_shown_by_stat() {
    let dir = TempDir::new().unwrap();
    let create = |name, handles| ["create", name, "--capacity", "256M", "--handles", handles, "--fill", "10"];
    printed(tantalum(dir.path(), &create("d.tant", "2")));
    let text = printed(tantalum(dir.path(), &["stat", "d.tant"]));
    assert!(text.contains("units programmed  of these moved  write amplification"), "{text}");
    let json = printed(tantalum(dir.path(), &["stat", "d.tant", "--json"]));
    let stat: serde_json::Value = serde_json::from_str(&json).unwrap();
    let written = |handle: usize| stat["handles"][handle]["host_units_written"].as_u64().unwrap();
    assert!(written(0) > 1000 && written(1) == 0, "{json}");
    for handles in ["0", "129"] {
        let message = refused(dir.path(), &create("e.tant", handles));
        assert!(message.contains("--handles") && message.contains("1 to 128"), "{message}");
    }
    let message = refused(dir.path(), &["serve", "d.tant", "--handles", "2"]);
    assert!(message.contains("--handles") && message.contains("--create"), "{message}");
}

/// More handles than the drive can afford.
fn profile_is_refused_with_numbers(dir: &TempDir, profile: Profile) {
    let fdp = Some(FdpProfile { handles: 128, isolation: Isolation::Persistently });
    fs::write(dir.path().join("many.toml"), Profile { fdp, ..profile }.to_toml()).unwrap();
    let message = refused(dir.path(), &["create", "many.tant", "--profile", "many.toml"]);
    assert!(
        message.contains("128 reclaim unit handles") && message.contains("637 of them for the handles"),
        "{message}"
    );
}

/// The counters went back to the last checkpoint, and the change since then was 0, or too small.
#[test]
fn no_change_is_shown_across_a_loss_of_power() {
    let dir = TempDir::new().unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--capacity", "64M", "--fill", "50"]));
    printed(tantalum(dir.path(), &["stat", "d.tant", "--reset"]));
    let before = stat(dir.path(), &[]);
    assert!(before.get("change").is_some(), "{before}");
    fs::write(dir.path().join("before.json"), before.to_string()).unwrap();
    let mut device = Device::open(&dir.path().join("d.tant")).unwrap();
    let (data, now_ns) = ([7; UNIT_BYTES], device.time_ns());
    // of no file
    let lpn = Lpn(device.limits().capacity_units as u32 - 1);
    device.submit(DriveCommand::Write { lpn, data: &data, fua: true, handle: None }, now_ns).unwrap();
    // its process ends without a shutdown, which is a loss of power
    drop(device);
    for more in [&[][..], &["--json"]] {
        let message = refused(dir.path(), &[&["stat", "d.tant", "--since", "before.json"], more].concat());
        assert!(message.contains("the drive lost power since then: its counters are those of"), "{message}");
        assert!(message.contains("take a new report"), "{message}");
        let output = tantalum(dir.path(), &[&["stat", "d.tant"], more].concat());
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        assert!(said.contains("no changes since the reset: the drive lost power"), "{said}");
        let shown = printed(output);
        assert!(!shown.contains("since reset") && !shown.contains("\"change\""), "{shown}");
    }
    printed(tantalum(dir.path(), &["info", "d.tant"]));
    refused(dir.path(), &["stat", "d.tant", "--since", "before.json"]);
    printed(tantalum(dir.path(), &["stat", "d.tant", "--reset"]));
    assert!(stat(dir.path(), &[]).get("change").is_some());
}

#[test]
fn an_image_that_could_not_be_aged_is_gone() {
    let dir = TempDir::new().unwrap();
    let create = |capacity| ["create", "d.tant", "--capacity", capacity, "--aged"];
    let message = refused(dir.path(), &create("8M"));
    let (what, would_do) = message.split_once("; use --capacity ").expect(&message);
    assert!(what.contains("a drive of 8 MiB is too small for this"), "{message}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a refused command left something");
    // one that is filled as others are, and not one with just enough room, of which another size is noted
    assert_eq!(would_do, "320M or more\n");
    let output = tantalum(dir.path(), &create("64M"));
    // a small drive is filled less than others, unless --fill says how much
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("32 MiB stay free for a log"), "{notes}");
    assert!(notes.contains("use --capacity 320M or more, or --fill 90\n"), "{notes}");
    printed(output);
}

#[test]
fn to_mount_a_stores_image_is_refused_without_advice_to_format_it() {
    let dir = TempDir::new().unwrap();
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
    let mut device = Device::create(&dir.path().join("store.tant"), &profile).unwrap();
    let attributes = NamespaceAttributes {
        expected_records: 100,
        load_factor_percent: 50,
        ..NamespaceAttributes::default()
    };
    let namespace = &mut NamespaceId::default();
    let made = device.submit(DriveCommand::CreateNamespace { attributes, namespace }, 0).unwrap();
    device.shutdown(made.done_ns).unwrap();
    fs::create_dir(dir.path().join("mnt")).unwrap();
    let message = refused(dir.path(), &["mount", "store.tant", "mnt"]);
    assert!(
        message.contains("store.tant holds no volume, but key-value namespaces, as a store does (1 of them)"),
        "{message}"
    );
    assert!(!message.contains("--format"), "{message}");
    assert!(printed(tantalum(dir.path(), &["info", "store.tant"])).contains("of 1 namespaces"));
}

#[test]
fn a_file_that_is_no_image_is_refused_and_kept() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("letter.txt");
    fs::write(&path, "Dear reader, ".repeat(1000)).unwrap();
    let message = refused(dir.path(), &["info", "letter.txt"]);
    assert!(message.starts_with("error: image letter.txt is not a drive image"), "{message}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "Dear reader, ".repeat(1000));
    let message = refused(dir.path(), &["info", "missing.tant"]);
    assert!(message.contains("missing.tant"), "{message}");
    assert!(!dir.path().join("missing.tant").exists());
}

/// A byte of each place of an image's tally.
const TALLIES: [u64; 2] = [2048 + 9, 2112 + 9];

/// Flips bits of a byte; doing it again puts it back.
fn flip(path: &Path, at: u64) {
    let mut image = fs::read(path).unwrap();
    image[at as usize] ^= 0x10;
    fs::write(path, image).unwrap();
}

#[test]
fn a_check_tells_what_is_wrong_and_changes_nothing() {
    let dir = TempDir::new().unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--profile", "femu-2021", "--capacity", "64M"]));
    let image = dir.path().join("d.tant");
    let before = fs::read(&image).unwrap();
    let text = printed(tantalum(dir.path(), &["check", "d.tant"]));
    assert!(text.contains("page records") && text.ends_with("last shutdown: clean\n0 findings\n"), "{text}");
    let json = printed(tantalum(dir.path(), &["check", "d.tant", "--json"]));
    let outcome: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&outcome["command"], &outcome["findings"]), (&"check".into(), &serde_json::json!([])));
    // both places of the tally, and then the first block's entry
    for (damaged, remedy) in [(TALLIES.as_slice(), "repair"), (&[69632 + 5], "none")] {
        damaged.iter().for_each(|at| flip(&image, *at));
        let output = tantalum(dir.path(), &["check", "d.tant", "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(outcome["findings"][0]["remedy"], remedy, "{outcome}");
        damaged.iter().for_each(|at| flip(&image, *at));
    }
    assert!(fs::read(&image).unwrap() == before, "a check changed the image");
}

#[test]
fn a_check_looks_at_a_log_structured_file_system_too() {
    for kind in [LfsKind::Nat, LfsKind::Tree] {
        let dir = TempDir::new().unwrap();
        let image = dir.path().join("d.tant");
        let mut profile = Profile::load("tlc-nvme").unwrap();
        profile.capacity_bytes = 64 << 20;
        let device = Device::create(&image, &profile).unwrap();
        let mut fs = LogFs::format(device, kind, Cleaning::Copy, 1 << 20).unwrap();
        let new = NewFile { permissions: 0o644, ..NewFile::default() };
        let file = fs.create_in(FileId::ROOT, b"file", &new).unwrap();
        fs.write(file, 0, &[7; 9000]).unwrap();
        shut_down(fs.unmount().map_err(|failed| failed.1).unwrap().into_device().unwrap());
        let text = printed(tantalum(dir.path(), &["check", "d.tant"]));
        let files =
            text.lines().find(|line| line.starts_with("files of the file system")).unwrap_or_default();
        assert!(files.split_whitespace().rev().take(2).eq(["0", "2"]), "{text}");

        // every unit but those that say what the drive holds
        let mut device = Device::open(&image).unwrap();
        for lpn in (2..16384).map(Lpn).filter(|lpn| device.is_mapped(*lpn)).collect::<Vec<_>>() {
            let now_ns = device.time_ns();
            device
                .submit(DriveCommand::Write { lpn, data: &[1; UNIT_BYTES], fua: true, handle: None }, now_ns)
                .unwrap();
        }
        shut_down(device);
        let output = tantalum(dir.path(), &["check", "d.tant", "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let finding = &outcome["findings"][0];
        assert_eq!(
            (&finding["part"], &finding["remedy"]),
            (&"files of the file system".into(), &"none".into())
        );
    }
}

fn shut_down(device: Device) {
    let now_ns = device.time_ns();
    device.shutdown(now_ns).unwrap();
}

#[test]
fn a_repair_does_what_is_sound_and_refuses_the_rest() {
    let dir = TempDir::new().unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--profile", "femu-2021", "--capacity", "64M"]));
    let image = dir.path().join("d.tant");
    let text = printed(tantalum(dir.path(), &["check", "--repair", "d.tant"]));
    assert!(text.starts_with("nothing repaired"), "{text}");
    TALLIES.iter().for_each(|at| flip(&image, *at));
    let output = tantalum(dir.path(), &["info", "d.tant"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("tantalum check --repair"), "{message}");
    let text = printed(tantalum(dir.path(), &["check", "--repair", "d.tant"]));
    assert!(text.starts_with("repaired: the tally was rebuilt"), "{text}");
    printed(tantalum(dir.path(), &["info", "d.tant"]));
    flip(&image, 69632 + 5);
    // what could be repaired, were it alone
    TALLIES.iter().for_each(|at| flip(&image, *at));
    let before = fs::read(&image).unwrap();
    let output = tantalum(dir.path(), &["check", "--repair", "d.tant"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.starts_with("nothing repaired: some damage is beyond repair"), "{text}");
    assert!(text.contains("(beyond repair)") && !text.contains("--repair"), "{text}");
    assert!(fs::read(&image).unwrap() == before, "a refused repair changed the image");
}

#[test]
fn what_is_no_image_cannot_be_checked() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("letter.txt"), "Dear reader, ".repeat(1000)).unwrap();
    for command in [&["check", "letter.txt"][..], &["check", "missing.tant", "--repair"]] {
        let message = refused(dir.path(), command);
        assert!(message.starts_with("error: image "), "{message}");
    }
}

#[test]
fn a_bench_prints_one_json_object() {
    let dir = TempDir::new().unwrap();
    let drive = ["--profile", "femu-2021", "--capacity", "64M"];
    let bench = |others: &[&str]| -> serde_json::Value {
        let arguments =
            [&["bench", "--pattern", "mixed", "--operations", "5000", "--json"][..], &drive, others];
        serde_json::from_str(&printed(tantalum(dir.path(), &arguments.concat()))).unwrap()
    };
    let outcome = bench(&[]);
    assert_eq!((&outcome["pattern"], &outcome["operations"]), (&"mixed".into(), &5000.into()));
    let figures = ["wall_seconds", "processor_us", "memcpy_processor_us", "operations_per_second"];
    for figure in figures.into_iter().chain(["memcpy_units_per_second", "virtual_seconds"]) {
        assert!(outcome[figure].as_f64().unwrap() > 0.0, "{figure}: {outcome}");
    }
    let alone = bench(&["--no-prefetch"]);
    assert_eq!((&outcome["announced_reads"], &alone["announced_reads"]), (&true.into(), &false.into()));
    assert_eq!(
        outcome["virtual_seconds"], alone["virtual_seconds"],
        "prefetching takes no time of the drive"
    );
}

/// A bench writes faster than flash, so its drive collects garbage and its writes wait for that.
#[test]
fn commands_of_a_drive_are_lines_if_the_environment_asks_for_them() {
    let dir = TempDir::new().unwrap();
    let bench = ["bench", "--pattern", "randwrite", "--operations", "20000", "--capacity", "64M", "--json"];
    let logged = |filter: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
        let output =
            command.args(bench).current_dir(dir.path()).env("TANTALUM_LOG", filter).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text) = logged("write,1us");
    let writes: Vec<&str> = text.lines().filter(|line| line.contains(" kind=write ")).collect();
    assert_eq!((code, writes.len() > 1000), (Some(0), true), "{} lines", writes.len());
    assert!(!text.contains(" kind=flush "), "only writes were asked for");
    assert!(writes.iter().any(|line| line.contains(" collection_ns=")), "{}", writes[0]);
    let (code, text) = logged("writes");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("TANTALUM_LOG") && text.contains("use all, read, write"), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let dir = TempDir::new().unwrap();
    printed(tantalum(dir.path(), &["create", "d.tant", "--profile", "femu-2021", "--capacity", "64M"]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_tantalum"))
        .args(["info", "d.tant"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn your_own_database_and_statements_come_together() {
    let dir = TempDir::new().unwrap();
    let message = refused(dir.path(), &["compare", "sqlite", "--database", "app.db"]);
    assert!(message.contains("--sql"), "{message}");
    fs::write(dir.path().join("work.sql"), "SELECT 1").unwrap();
    fs::write(dir.path().join("notes.db"), "not a database at all ".repeat(500)).unwrap();
    let message = refused(dir.path(), &["compare", "sqlite", "--database", "notes.db", "--sql", "work.sql"]);
    assert_eq!(message, "error: notes.db cannot be used as a database: file is not a database\n");
}

#[test]
fn crash_sqlite_counts_what_it_did() {
    let dir = TempDir::new().unwrap();
    let arguments = ["crash", "sqlite", "--mode", "sw-wal", "--synchronous", "full", "--cuts", "3", "--json"];
    let outcome: serde_json::Value =
        serde_json::from_str(&printed(tantalum(dir.path(), &arguments))).unwrap();
    assert_eq!((&outcome["cuts"], &outcome["dirty_recoveries"]), (&3.into(), &3.into()));
    assert_eq!(outcome["violations"], serde_json::json!([]));
    let message = refused(dir.path(), &["crash", "sqlite", "--cuts", "0"]);
    assert!(message.contains("@N for flash operation N"), "{message}");
}

#[test]
fn recovery_cost_prints_tables_json_and_plots() {
    let dir = TempDir::new().unwrap();
    let small = ["recovery-cost", "--capacity", "32MiB", "--capacities", "64MiB,1GiB", "--written", "0,1MiB"];
    let text = printed(tantalum(dir.path(), &[&small[..], &["--report", "plots.svg"]].concat()));
    for word in ["64 MiB", "1 GiB", "1 MiB", "default", "total ms"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    assert!(fs::read_to_string(dir.path().join("plots.svg")).unwrap().starts_with("<svg"));
    let output = tantalum(dir.path(), &[&small[..], &["--json"]].concat());
    let notes = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(notes.contains("note: at 64 MiB, the drive has"), "{notes}");
    assert!(!notes.contains("note: at 1 GiB, the drive has"), "{notes}");
    let json = printed(output);
    let outcome: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(outcome["command"], "recovery-cost");
    for drive in [&outcome, &outcome["growth"][0]] {
        assert!(drive["effective_over_provisioning_percent"].as_f64().unwrap() > 7.7, "{json}");
        assert!(drive["geometry"]["channels"].as_u64().unwrap() > 0, "{json}");
    }
    assert_eq!(outcome["growth"].as_array().unwrap().len(), 4);
    assert!(outcome["growth"][3]["device_ns"].as_u64().unwrap() > 0, "{json}");
    assert!(outcome["intervals"][0]["checkpoint_share"].as_f64().unwrap() > 0.0, "{json}");
}

#[test]
fn recovery_cost_of_an_impossible_drive_is_refused_before_it_is_measured() {
    let dir = TempDir::new().unwrap();
    let message = refused(dir.path(), &["recovery-cost", "--capacities", "1GiB,5K"]);
    assert!(message.contains("--capacities 5120: it must be a multiple of 4 KiB"), "{message}");
    let message = refused(dir.path(), &["recovery-cost", "--report", "no/such/plots.svg"]);
    assert!(message.starts_with("error: no/such/plots.svg: "), "{message}");
}

#[test]
fn info_tells_of_a_drives_zones() {
    let dir = TempDir::new().unwrap();
    printed(tantalum(dir.path(), &["create", "z.tant", "--profile", "zns"]));
    let text = printed(tantalum(dir.path(), &["info", "z.tant"]));
    assert!(text.contains("24 of 32 MiB; at most 14 open and 14 active"), "{text}");
    assert!(text.contains("24 empty; 0 bytes written"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&printed(tantalum(dir.path(), &["info", "z.tant", "--json"]))).unwrap();
    assert_eq!((&json["zones"]["empty"], &json["zones"]["size_units"]), (&24.into(), &8192.into()));
    printed(tantalum(dir.path(), &["create", "d.tant", "--capacity", "64M"]));
    assert!(!printed(tantalum(dir.path(), &["info", "d.tant"])).contains("zones"));
}
