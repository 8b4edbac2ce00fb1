//! Small sweeps, interrupted and resumed.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tantalum_report::Monitor;
use tantalum_sweep::{Folder, Grid, SweepError, sweep, threads};
use tempfile::TempDir;

const GRID: &str = r#"
seeds = 2

[run]
profile = "femu-2021"
capacity = "64M"
condition = "aged"
requests = 3000

[axes]
workload = ["randwrite", "mixed"]
over_provisioning_percent = [10, 28]
queue_depth = [1, 16]
"#;

fn grid(text: &str) -> Grid {
    Grid::from_toml(text, "grid.toml", Path::new("")).unwrap()
}

fn csv(folder: &Path) -> String {
    fs::read_to_string(folder.join("table.csv")).unwrap()
}

/// The CSV, and with the feature the Parquet.
fn tables(folder: &Path) -> (String, Option<Vec<u8>>) {
    let parquet = fs::read(folder.join("table.parquet"));
    assert_eq!(parquet.is_ok(), cfg!(feature = "parquet"), "{parquet:?}");
    (csv(folder), parquet.ok())
}

fn cell<'a>(csv: &'a str, row: usize, name: &str) -> &'a str {
    let mut lines = csv.lines();
    let place = lines.next().unwrap().split(',').position(|title| title == name).unwrap();
    cells(lines.nth(row).unwrap())[place]
}

/// The cells of a line; those in quotes may have commas.
fn cells(line: &str) -> Vec<&str> {
    let mut in_quotes = false;
    line.split(|character| {
        in_quotes ^= character == '"';
        character == ',' && !in_quotes
    })
    .collect()
}

#[test]
fn the_table_is_the_same_for_any_number_of_threads_and_after_an_interruption() {
    let grid = grid(GRID);
    let (alone, among) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let swept =
        sweep(&grid, &Folder::open(alone.path()).unwrap(), threads(Some(1)).unwrap(), &Monitor::silent())
            .unwrap();
    assert_eq!((swept.runs, swept.done, swept.kept, swept.interrupted), (16, 16, 0, false));
    // interrupted as soon as a run is complete
    let folder = Folder::open(among.path()).unwrap();
    let cancelled = Arc::new(AtomicBool::new(false));
    let runs = among.path().join("runs");
    let count = || {
        fs::read_dir(&runs)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "json"))
            .count()
    };
    let first = std::thread::scope(|scope| {
        scope.spawn(|| {
            while count() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            cancelled.store(true, Ordering::Relaxed);
        });
        sweep(&grid, &folder, threads(Some(3)).unwrap(), &Monitor::new(Arc::clone(&cancelled))).unwrap()
    });
    assert!(first.interrupted && first.done >= 1 && first.done < 16, "{first:?}");
    assert_eq!(first.done, count());
    let second = sweep(&grid, &folder, threads(Some(3)).unwrap(), &Monitor::silent()).unwrap();
    assert_eq!((second.kept, second.done, second.interrupted), (first.done, 16 - first.done, false));
    assert_eq!(tables(alone.path()), tables(among.path()));
    let csv = csv(alone.path());
    assert_eq!(csv.lines().count(), 17);
    assert_eq!((cell(&csv, 0, "workload"), cell(&csv, 15, "workload")), ("randwrite", "mixed"));
    assert_eq!(cell(&csv, 3, "seed"), "2");
    let amplification = |row| cell(&csv, row, "write_amplification").parse::<f64>().unwrap();
    let narrow = (0..16).find(|row| cell(&csv, *row, "over_provisioning_percent") == "10").unwrap();
    let wide = (0..16).find(|row| cell(&csv, *row, "over_provisioning_percent") == "28").unwrap();
    assert!(amplification(narrow) > amplification(wide), "{csv}");
}

/// A table in Parquet of an earlier sweep would not be that of the CSV.
#[cfg(not(feature = "parquet"))]
#[test]
fn a_table_that_this_build_cannot_write_again_is_not_left_as_it_is() {
    let grid = grid(GRID);
    let output = TempDir::new().unwrap();
    let folder = Folder::open(output.path()).unwrap();
    let old = output.path().join("table.parquet");
    fs::write(&old, "old").unwrap();
    let error = sweep(&grid, &folder, threads(None).unwrap(), &Monitor::silent()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} would be out of date: this build has no Parquet: build with `cargo install --path crates/cli --features parquet`, or remove the file",
            old.display()
        )
    );
    assert_eq!(fs::read_dir(output.path().join("runs")).unwrap().count(), 0, "runs were done first");
}

#[test]
fn what_is_kept_is_of_the_run_and_damage_is_told() {
    let grid =
        grid("[run]\nprofile = \"femu-2021\"\ncapacity = \"64M\"\nworkload = \"seqwrite\"\nrequests = 100\n");
    let output = TempDir::new().unwrap();
    let folder = Folder::open(output.path()).unwrap();
    sweep(&grid, &folder, threads(None).unwrap(), &Monitor::silent()).unwrap();
    let file = output.path().join("runs").join(format!("{}.json", grid.runs[0].id()));
    let whole = fs::read_to_string(&file).unwrap();
    // a file that is half there can only come from somebody else: runs appear in one step
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let error = sweep(&grid, &folder, threads(None).unwrap(), &Monitor::silent()).unwrap_err();
    assert!(
        matches!(error, SweepError::Kept { .. }) && error.to_string().contains("remove the file"),
        "{error}"
    );
    fs::write(&file, whole.replace("\"requests\": 100", "\"requests\": 101")).unwrap();
    let error = sweep(&grid, &folder, threads(None).unwrap(), &Monitor::silent()).unwrap_err().to_string();
    assert!(error.contains("it is of another run"), "{error}");
}

#[test]
fn a_run_that_fails_is_a_row_and_ends_no_other() {
    let output = TempDir::new().unwrap();
    fs::write(output.path().join("trace.csv"), format!("0,W,0,4096,1\n0,W,{},4096,2\n", 1u64 << 40)).unwrap();
    let text = "[run]\nprofile = \"femu-2021\"\ncapacity = \"64M\"\ntrace = \"trace.csv\"\n[axes]\nscale = [\"none\", \"wrap\"]\n";
    let grid = Grid::from_toml(text, "grid.toml", output.path()).unwrap();
    let swept =
        sweep(&grid, &Folder::open(output.path()).unwrap(), threads(None).unwrap(), &Monitor::silent())
            .unwrap();
    assert_eq!((swept.done, swept.failed.len(), swept.interrupted), (1, 1, false));
    let csv = fs::read_to_string(output.path().join("table.csv")).unwrap();
    assert_eq!((cell(&csv, 1, "requests"), cell(&csv, 1, "write_amplification").is_empty()), ("2", false));
    assert!(csv.lines().nth(1).unwrap().contains("line 2: the request ends at byte"), "{csv}");
    // a changed trace is another run
    let id = grid.runs[1].id();
    fs::write(output.path().join("trace.csv"), "0,W,0,4096,1\n").unwrap();
    assert_ne!(Grid::from_toml(text, "grid.toml", output.path()).unwrap().runs[1].id(), id);
}

fn swept(text: &str, folder: &TempDir) -> (Grid, String) {
    let grid = Grid::from_toml(text, "grid.toml", folder.path()).unwrap();
    let swept =
        sweep(&grid, &Folder::open(folder.path()).unwrap(), threads(None).unwrap(), &Monitor::silent())
            .unwrap();
    assert!(swept.failed.is_empty(), "{swept:?}");
    (grid, fs::read_to_string(folder.path().join("table.csv")).unwrap())
}

/// A grid can say all that `tantalum replay` can about how a trace is read.
#[test]
fn a_trace_is_read_by_the_columns_that_the_grid_names() {
    let output = TempDir::new().unwrap();
    fs::write(output.path().join("trace.csv"), "2,1,8,8\n4,0,8,8\n6,0,16,4\n").unwrap();
    let text = "[run]\nprofile = \"femu-2021\"\ncapacity = \"64M\"\ntrace = \"trace.csv\"\n\
        columns = \"time,op,offset,units\"\noffset_unit = \"sector\"\noperations = \"read=0,write=1\"\n\
        [axes]\ntime_unit = [\"ms\", \"s\"]\n";
    let (grid, csv) = swept(text, &output);
    let figures = |row| ["time_unit", "write_bytes", "read_bytes"].map(|name| cell(&csv, row, name));
    assert_eq!((figures(0), figures(1)), (["ms", "4096", "6144"], ["s", "4096", "6144"]));
    let seconds = |row| cell(&csv, row, "seconds").parse::<f64>().unwrap();
    assert!((0.004..0.01).contains(&seconds(0)) && (4.0..4.1).contains(&seconds(1)), "{csv}");
    assert_ne!(grid.runs[0].id(), grid.runs[1].id());
    // what `--list` prints is the same run
    let listed = serde_json::to_string(&grid.runs[1]).unwrap();
    assert_eq!(serde_json::from_str::<tantalum_sweep::Run>(&listed).unwrap(), grid.runs[1]);

    let lines = "0.000001000 Q W 8 8\n0.000002000 D W 8 8\n0.000003000 Q R 8 8\n";
    fs::write(output.path().join("trace.txt"), lines).unwrap();
    let text = "[run]\nprofile = \"femu-2021\"\ncapacity = \"64M\"\ntrace = \"trace.txt\"\n\
        blkparse_format = \"%T.%t %a %d %S %n\"\n[axes]\naction = [\"Q\", \"D\"]\n";
    let (_, csv) = swept(text, &output);
    assert_eq!([cell(&csv, 0, "requests"), cell(&csv, 1, "requests")], ["2", "1"]);
}

/// Such runs failed one by one, and only the table said why.
#[test]
fn a_trace_that_cannot_be_replayed_is_found_before_anything_runs() {
    let folder = TempDir::new().unwrap();
    let refused = |trace: &str, more: &str| {
        fs::write(folder.path().join("trace"), trace).unwrap();
        let text = format!("[run]\ncapacity = \"64M\"\ntrace = \"trace\"\n{more}\n");
        Grid::from_toml(&text, "grid.toml", folder.path()).unwrap_err().to_string()
    };
    let without_times = refused("fio version 2 iolog\nf write 0 4096\n", "speed = 2");
    assert_eq!(without_times, "grid.toml: speed = 2: the requests have no times; use queue_depth");
    let unknown = refused("hello\n", "[axes]\nscale = [\"fit\"]");
    assert!(
        unknown.starts_with("grid.toml: with scale fit: ") && unknown.contains("of no known format"),
        "{unknown}"
    );
    assert!(refused("", "").ends_with("the trace is empty"));
}

/// blktrace writes a file for each processor. A change of any of them makes another run.
#[test]
fn a_recording_of_blktrace_is_all_of_its_files() {
    let output = TempDir::new().unwrap();
    let text = "[run]\nprofile = \"femu-2021\"\ncapacity = \"64M\"\ntrace = \"sda\"\n";
    let write = |processor: u32, sector: u64| {
        let (magic, event) = (0x6561_7407_u32, 7 | (1 << 6 | 2) << 16_u32);
        let head = [magic.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        let place = [0, sector].map(u64::to_le_bytes).concat();
        let rest = [4096, event, 7, 8 << 20, 0, 0].map(u32::to_le_bytes).concat();
        let file = output.path().join(format!("sda.blktrace.{processor}"));
        fs::write(file, [head, place, rest].concat()).unwrap();
    };
    let id = || Grid::from_toml(text, "grid.toml", output.path()).unwrap().runs[0].id();
    write(0, 8);
    write(1, 16);
    let before = id();
    assert_eq!(before, id());
    write(1, 24);
    assert_ne!(before, id());
}

#[test]
fn the_table_has_the_drive_as_it_is_and_a_warning_where_that_differs() {
    let output = TempDir::new().unwrap();
    let text = "[run]\nworkload = \"seqwrite\"\nrequests = 10\n\
        [axes]\ncapacity = [\"128M\", \"4G\"]\nprofile = [\"femu-2021\", \"tlc-nvme\"]\n";
    let (grid, csv) = swept(text, &output);
    let (small, large) = (1, 2);
    assert_eq!([cell(&csv, small, "profile"), cell(&csv, large, "profile")], ["tlc-nvme", "femu-2021"]);
    let percent = |row| cell(&csv, row, "effective_over_provisioning_percent").parse::<f64>().unwrap();
    assert!((9.3..9.5).contains(&percent(small)) && percent(large) == 12.5, "{csv}");
    let pages = |row| cell(&csv, row, "effective_pages_per_block");
    assert_eq!([pages(small), pages(large)], ["8", "256"]);
    assert_eq!(cell(&csv, small, "effective_page_bytes"), "16384");
    let warning = cell(&csv, small, "warning");
    assert!(warning.starts_with("\"the drive has 9.4 % over-provisioning where 7 % were asked for"), "{csv}");
    assert!(warning.contains("; the drive's blocks have 8 pages where the profile has 256"), "{csv}");
    assert_eq!(cell(&csv, large, "warning"), "");
    let line = grid.rounding().unwrap().unwrap();
    assert!(line.starts_with("drives of 3 of 4 runs are not as asked for"), "{line}");
    assert!(line.contains("The first is capacity 128M, profile femu-2021, seed 1 (the drive"), "{line}");
    let large = Grid { runs: vec![grid.runs[large].clone()] };
    assert_eq!(large.rounding().unwrap(), None);
}

#[test]
fn a_run_that_fails_has_its_drive_in_the_table() {
    let output = TempDir::new().unwrap();
    fs::write(output.path().join("trace.csv"), format!("0,W,{},4096,2\n", 1u64 << 40)).unwrap();
    let text =
        "[run]\nprofile = \"tlc-nvme\"\ncapacity = \"128M\"\ntrace = \"trace.csv\"\nscale = \"none\"\n";
    let grid = Grid::from_toml(text, "grid.toml", output.path()).unwrap();
    let swept =
        sweep(&grid, &Folder::open(output.path()).unwrap(), threads(None).unwrap(), &Monitor::silent())
            .unwrap();
    assert_eq!(swept.failed.len(), 1, "{swept:?}");
    let csv = fs::read_to_string(output.path().join("table.csv")).unwrap();
    assert_eq!(cell(&csv, 0, "effective_pages_per_block"), "8");
    assert!(cell(&csv, 0, "warning").contains("9.4 %"), "{csv}");
}
