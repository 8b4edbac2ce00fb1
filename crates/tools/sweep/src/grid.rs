//! A grid in TOML: what all runs have in common, axes, and seeds.
//!
//! Any setting other than those below is a field of the profile, by its name in the profile's file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tantalum::{Profile, ProfileError, Size};
use tantalum_replay::{Scale, Source};
use tantalum_workloads::bench::{Condition, Pattern};
use toml::Value as Toml;

use crate::check::Checks;
use crate::drives::Drives;
use crate::error::SweepError;
use crate::reading::{Reading, Unusable};
use crate::run::{Load, Run, Value, short_hex};
use crate::taken::Taken;

/// Maximum number of runs of one grid: more are a mistake, and would fill memory.
const MOST_RUNS: u64 = 1 << 20;

/// Requests of a pattern, unless the grid says otherwise.
const REQUESTS: u64 = 100_000;

const UNIT_BYTES: u64 = 4096;

/// The settings that are no fields of a profile, for any load.
const OWN: &[&str] = &[
    "profile",
    "capacity",
    "condition",
    "workload",
    "requests",
    "request_bytes",
    "queue_depth",
    "speed",
    "scale",
    "trace",
];

/// Those that say how a trace is read.
const OF_TRACES: &[&str] =
    &["format", "blkparse_format", "columns", "time_unit", "offset_unit", "operations", "action", "volumes"];

/// A grid whose runs are all checked.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Its runs. Axes are in alphabetical order, of which the last changes fastest; seeds change faster still.
    pub runs: Vec<Run>,
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    seeds: Option<Seeds>,
    #[serde(default)]
    run: toml::Table,
    #[serde(default)]
    axes: toml::Table,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "seeds is not a number of seeds, or a list of whole numbers from 0 on")]
enum Seeds {
    Count(u64),
    Listed(Vec<u64>),
}

impl Grid {
    /// One line if rounding changes drives much: in how many runs, and how in the first of them.
    pub fn rounding(&self) -> Result<Option<String>, SweepError> {
        let mut drives = Drives::default();
        let (mut runs, mut first) = (0, None);
        for run in &self.runs {
            if let Some(warning) = &drives.of(run)?.warning {
                runs += 1;
                first.get_or_insert_with(|| format!("{} ({warning})", run.about()));
            }
        }
        Ok(first.map(|first| {
            format!(
                "drives of {runs} of {} runs are not as asked for; the column warning says how. The first is {first}",
                self.runs.len()
            )
        }))
    }

    /// Reads a grid. Paths of traces and profiles in it are relative to its folder.
    pub fn load(path: &Path) -> Result<Grid, SweepError> {
        let text = fs::read_to_string(path).map_err(SweepError::file(path))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Grid::from_toml(&text, &path.display().to_string(), folder)
    }

    /// Reads a grid from TOML. `origin` names it in errors; paths in it are relative to `folder`.
    pub fn from_toml(text: &str, origin: &str, folder: &Path) -> Result<Grid, SweepError> {
        let reason = |reason: String| SweepError::Grid { origin: origin.to_owned(), reason };
        let written: Written = toml::from_str(text).map_err(|error| {
            let line = 1 + text[..error.span().map_or(0, |span| span.start)].matches('\n').count();
            reason(format!("line {line}: {}", error.message().replace('\n', ", ")))
        })?;
        let seeds = match written.seeds {
            Some(Seeds::Count(count)) if count > MOST_RUNS => return Err(too_many(origin)),
            ref seeds => listed(seeds.as_ref()).map_err(reason)?,
        };
        let axes = axes(&written).map_err(reason)?;
        let runs = axes.iter().try_fold(seeds.len() as u64, |runs, (_, values)| {
            runs.checked_mul(values.len() as u64).filter(|runs| *runs <= MOST_RUNS)
        });
        let runs = runs.ok_or_else(|| too_many(origin))?;
        let mut builder = Builder { origin, folder, contents: HashMap::new() };
        let mut checks = Checks::new(origin);
        let mut grid = Grid { runs: Vec::with_capacity(runs as usize) };
        for combination in 0..runs / seeds.len() as u64 {
            let chosen = chosen(&axes, combination);
            let first = builder.run(&written.run, &chosen)?;
            checks.check(&first)?;
            for seed in &seeds {
                grid.runs.push(Run { number: grid.runs.len() as u64, seed: *seed, ..first.clone() });
            }
        }
        Ok(grid)
    }
}

fn too_many(origin: &str) -> SweepError {
    SweepError::TooMany { origin: origin.to_owned(), most: MOST_RUNS }
}

/// The seeds, or why they cannot be used.
fn listed(seeds: Option<&Seeds>) -> Result<Vec<u64>, String> {
    let seeds = match seeds {
        None => vec![1],
        Some(Seeds::Count(count)) => (1..=*count).collect(),
        Some(Seeds::Listed(seeds)) => seeds.clone(),
    };
    if seeds.is_empty() {
        return Err("seeds is empty: give a number of them, or a list".to_owned());
    }
    let mut known = HashSet::new();
    match seeds.iter().find(|seed| !known.insert(**seed)) {
        Some(twice) => Err(format!("seeds has {twice} twice, whose runs would be the same: give it once")),
        None => Ok(seeds),
    }
}

/// The axes with their values, or why they cannot be used.
fn axes(written: &Written) -> Result<Vec<(String, Vec<Toml>)>, String> {
    let axis = |(key, values): (&String, &Toml)| {
        let values = values.as_array().ok_or_else(|| format!("axes.{key} is not a list of values"))?;
        if values.is_empty() {
            return Err(format!("axes.{key} is an empty list: give it at least one value"));
        }
        if written.run.contains_key(key) {
            return Err(format!("{key} is both in [run] and in [axes]"));
        }
        Ok((key.clone(), values.clone()))
    };
    written.axes.iter().map(axis).collect()
}

/// The values of a combination; the last axis changes fastest.
fn chosen(axes: &[(String, Vec<Toml>)], mut combination: u64) -> Vec<(String, Toml)> {
    let mut chosen = Vec::with_capacity(axes.len());
    for (key, values) in axes.iter().rev() {
        let index = combination % values.len() as u64;
        combination /= values.len() as u64;
        chosen.push((key.clone(), values[index as usize].clone()));
    }
    chosen.reverse();
    chosen
}

/// Makes runs of settings.
struct Builder<'a> {
    origin: &'a str,
    folder: &'a Path,
    /// The contents of each trace, which is read once.
    contents: HashMap<PathBuf, String>,
}

impl Builder<'_> {
    /// The run with these settings and seed 0.
    fn run(&mut self, common: &toml::Table, chosen: &[(String, Toml)]) -> Result<Run, SweepError> {
        let mut settings = common.clone();
        settings.extend(chosen.iter().cloned());
        let mut taken = Taken::new(self.origin, settings);
        let profile = taken.text("profile")?.unwrap_or_else(|| "tlc-nvme".to_owned());
        let capacity = taken.parsed::<Size>("capacity")?;
        let condition = taken.text("condition")?.unwrap_or_else(|| Condition::Fresh.name().to_owned());
        taken.check::<Condition>("condition", &condition)?;
        let scale = taken.text("scale")?.unwrap_or_else(|| "fit".to_owned());
        taken.check::<Scale>("scale", &scale)?;
        let queue_depth = taken.number("queue_depth", 1, u32::MAX.into())?.map(|depth| depth as u32);
        let speed = taken.positive("speed")?;
        let load = self.load(&mut taken)?;
        let is_pattern = matches!(load, Load::Pattern { .. });
        if is_pattern && speed.is_some() || queue_depth.is_some() && speed.is_some() {
            let reason = "speed is for a trace without queue_depth".to_owned();
            return Err(SweepError::Grid { origin: self.origin.to_owned(), reason });
        }
        let value = |value: &Toml| match value {
            Toml::Integer(number) => Value::Integer(*number),
            Toml::Float(number) => Value::Number(*number),
            Toml::String(text) => Value::Text(text.clone()),
            other => Value::Text(other.to_string()),
        };
        let axes: BTreeMap<String, Value> = chosen.iter().map(|(key, of)| (key.clone(), value(of))).collect();
        let mut run = Run {
            number: 0,
            axes,
            seed: 0,
            profile: String::new(),
            condition,
            load,
            queue_depth: queue_depth.or(is_pattern.then_some(1)),
            speed,
            scale,
        };
        run.profile = self.profile(&profile, capacity, taken.rest(), &run)?;
        Ok(run)
    }

    fn load(&mut self, taken: &mut Taken<'_>) -> Result<Load, SweepError> {
        let (pattern, trace) = (taken.text("workload")?, taken.text("trace")?);
        let requests = taken.number("requests", 1, u64::MAX)?;
        match (pattern, trace) {
            (Some(pattern), None) => {
                taken.check::<Pattern>("workload", &pattern)?;
                let request_bytes = taken.number("request_bytes", 1, 1 << 32)?.unwrap_or(UNIT_BYTES);
                Ok(Load::Pattern { pattern, requests: requests.unwrap_or(REQUESTS), request_bytes })
            }
            (None, Some(trace)) => {
                let path = self.folder.join(trace);
                let reading = Reading {
                    format: taken.text("format")?,
                    blkparse_format: taken.text("blkparse_format")?,
                    columns: taken.text("columns")?,
                    time_unit: taken.text("time_unit")?,
                    offset_unit: taken.text("offset_unit")?,
                    operations: taken.text("operations")?,
                    action: taken.text("action")?,
                    volumes: taken.texts("volumes")?,
                    requests,
                };
                let unusable =
                    |unusable: Unusable| taken.wrong(unusable.key, unusable.value, unusable.expected);
                let source = reading.source(&path).map_err(unusable)?;
                let contents = self.contents(&source)?;
                Ok(Load::Trace { path: path.display().to_string(), contents, reading: Box::new(reading) })
            }
            _ => {
                let reason = "a run has either a workload (seqwrite, randwrite, randread, mixed) or a trace"
                    .to_owned();
                Err(SweepError::Grid { origin: self.origin.to_owned(), reason })
            }
        }
    }

    /// The length and checksum of the files of a trace.
    fn contents(&mut self, source: &Source) -> Result<String, SweepError> {
        if let Some(known) = self.contents.get(&source.path) {
            return Ok(known.clone());
        }
        let paths = source.files().map_err(SweepError::file(&source.path))?;
        let (mut hash, mut buffer, mut bytes) = (Sha256::new(), vec![0; 1 << 20], 0u64);
        for path in paths {
            let mut file = File::open(&path).map_err(SweepError::file(&path))?;
            loop {
                match file.read(&mut buffer).map_err(SweepError::file(&path))? {
                    0 => break,
                    read => {
                        hash.update(&buffer[..read]);
                        bytes += read as u64;
                    }
                }
            }
        }
        let contents = format!("{bytes} bytes, {}", short_hex(&hash.finalize()));
        self.contents.insert(source.path.clone(), contents.clone());
        Ok(contents)
    }

    /// The profile with the fields that the grid changes, as TOML.
    fn profile(
        &self,
        name: &str,
        capacity: Option<Size>,
        fields: toml::Table,
        run: &Run,
    ) -> Result<String, SweepError> {
        let wrong = |error| SweepError::Profile {
            origin: self.origin.to_owned(),
            values: run.values(),
            error: Box::new(error),
        };
        let beside = self.folder.join(name);
        let is_file = name.ends_with(".toml") && beside.is_file();
        let name = if is_file { beside.display().to_string() } else { name.to_owned() };
        let profile = Profile::load(&name).map_err(wrong)?;
        let mut table: toml::Table = toml::from_str(&profile.to_toml()).expect("a profile is TOML");
        if let Some(Size(bytes)) = capacity {
            table.insert("capacity_bytes".to_owned(), Toml::Integer(bytes.try_into().unwrap_or(i64::MAX)));
        }
        for (key, value) in &fields {
            self.set(&mut table, key, value.clone())?;
        }
        let text = toml::to_string(&table).expect("a table is TOML");
        let profile = Profile::from_toml(&text, &name).map_err(|error| match error {
            ProfileError::Invalid { invalid, .. } => SweepError::Impossible {
                origin: self.origin.to_owned(),
                values: run.values(),
                reason: invalid.to_string(),
            },
            ProfileError::Malformed { field, reason, .. } if fields.contains_key(&field) => {
                let expected = if reason.starts_with("unknown field") { unknown(&field) } else { reason };
                let (origin, value) = (self.origin.to_owned(), fields[&field].to_string());
                SweepError::Value { origin, key: field, value, expected }
            }
            error => wrong(error),
        })?;
        Ok(profile.to_toml())
    }

    /// Changes a field such as `flash.read_ns`. The profile decides whether it has such a field.
    fn set(&self, table: &mut toml::Table, key: &str, value: Toml) -> Result<(), SweepError> {
        let Some((section, field)) = key.split_once('.') else {
            // an integer is fine where the profile has a fraction
            let is_float = table.get(key).is_some_and(Toml::is_float);
            let value =
                value.as_integer().filter(|_| is_float).map_or(value, |whole| Toml::Float(whole as f64));
            table.insert(key.to_owned(), value);
            return Ok(());
        };
        let section_of = table.entry(section).or_insert_with(|| Toml::Table(toml::Table::new()));
        match section_of {
            Toml::Table(inner) => self.set(inner, field, value),
            _ => Err(SweepError::Grid {
                origin: self.origin.to_owned(),
                reason: format!("{section} is not a section of a profile, so {key} cannot be set"),
            }),
        }
    }
}

/// Why a setting that has not been taken is none, since the profile does not know it either.
fn unknown(key: &str) -> String {
    if OF_TRACES.contains(&key) {
        return "it is for a trace; leave it out, or set trace".to_owned();
    }
    let own = OWN.iter().chain(OF_TRACES).copied().collect::<Vec<_>>().join(", ");
    format!(
        "there is no such setting; a grid has {own}, and the fields of a profile, such as over_provisioning_percent or \
         \"flash.read_ns\""
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(text: &str) -> Result<Grid, SweepError> {
        Grid::from_toml(text, "grid.toml", Path::new(""))
    }

    const RUN: &str = "[run]\nworkload = \"randwrite\"\ncapacity = \"64M\"\n";

    #[test]
    fn every_combination_is_a_run_and_has_its_own_name() {
        // durassd keeps much flash for its dump, so it cannot be small
        let run = RUN.replace("64M", "1G");
        let text = format!(
            "seeds = 2\n{run}[axes]\nover_provisioning_percent = [7, 28.5]\nprofile = [\"femu-2021\", \"durassd\"]\n\"ftl.victim_policy\" = [\"greedy\", \"cost-benefit\"]\n"
        );
        let runs = grid(&text).unwrap().runs;
        assert_eq!(runs.len(), 16);
        let ids: std::collections::BTreeSet<String> = runs.iter().map(Run::id).collect();
        assert_eq!(ids.len(), 16);
        let profile = Profile::from_toml(&runs[15].profile, "").unwrap();
        assert_eq!((profile.over_provisioning_percent, &profile.name[..]), (28.5, "durassd"));
        assert_eq!(profile.capacity_bytes, 1 << 30);
        assert!(runs[0].profile.contains("cost-benefit") != runs[15].profile.contains("cost-benefit"));
        assert_eq!((runs[0].seed, runs[1].seed, runs[1].number), (1, 2, 1));
    }

    #[test]
    fn a_run_keeps_its_name_wherever_it_stands() {
        let alone = grid(&format!("seeds = [2]\n{RUN}")).unwrap().runs.remove(0);
        let axis = "[axes]\nrequests = [5, 100_000]\n";
        let among = grid(&format!("seeds = [2]\n{RUN}{axis}")).unwrap().runs.remove(1);
        assert_eq!(alone.id(), among.id());
        assert_ne!(alone.id(), Run { seed: 3, ..alone.clone() }.id());
    }

    #[test]
    fn wrong_grids_say_what_is_wrong() {
        let cases = [
            ("", "either a workload"),
            ("[run]\nworkload = \"sideways\"", "workload = sideways: use one of seqwrite"),
            ("[run]\nworkload = \"mixed\"\ntrace = \"t\"", "either a workload"),
            ("[run]\ntrace = \"no/such/trace\"", "no/such/trace: No such file"),
            ("seeds = []", "seeds is empty"),
            ("seeds = 99999999999", "more than 1048576 runs"),
            ("seeds = [3, 1, 3]", "seeds has 3 twice"),
            ("[axes]\ncapacity = 5", "axes.capacity is not a list"),
            ("[axes]\ncapacity = []", "axes.capacity is an empty list"),
            ("\n[axes\n", "line 2"),
            ("what = 1", "unknown field `what`"),
            (
                "[run]\nworkload = \"mixed\"\nchannels = 5",
                "grid.toml: channels = 5: there is no such setting; a grid has profile, capacity,",
            ),
            ("[run]\nworkload = \"mixed\"\n\"flash.page\" = 5", "flash.page = 5: there is no such setting"),
            ("[run]\nworkload = \"mixed\"\n\"flash.read_ns\" = \"a\"", "flash.read_ns = \"a\": invalid type"),
            ("[run]\nworkload = \"mixed\"\n\"flash.page_bytes\" = 5000", "it must be 4096, 8192 or 16384"),
            ("[run]\nworkload = \"mixed\"\n\"name.what\" = 1", "name is not a section"),
            (
                "[run]\nworkload = \"mixed\"\nqueue_depth = 0",
                "queue_depth = 0: it must be a whole number from 1",
            ),
            ("[run]\nworkload = \"mixed\"\nspeed = 2", "speed is for a trace"),
            ("[run]\nworkload = \"mixed\"\ncapacity = \"5X\"", "capacity = \"5X\": a size is"),
            ("[run]\nworkload = \"mixed\"\nprofile = \"nothing\"", "no profile named \"nothing\""),
            ("[run]\nworkload = \"mixed\"\n[axes]\nworkload = [\"mixed\"]", "both in [run] and in [axes]"),
            ("[run]\nworkload = \"mixed\"\ncolumns = \"op\"", "columns = \"op\": it is for a trace"),
            (
                "[run]\nworkload = \"mixed\"\nprofile = \"kaml-board\"\n[axes]\ncapacity = [\"64M\"]",
                "grid.toml: with capacity 64M: ",
            ),
            (
                "[run]\nworkload = \"mixed\"\nprofile = \"kaml-board\"\ncapacity = \"64M\"",
                "raise the over-provisioning, or use capacity = \"",
            ),
            (
                "[run]\nworkload = \"mixed\"\ncapacity = \"64M\"\nrequest_bytes = 67108865",
                "request_bytes = 67108865: it must be from 1 to the drive's 67108864",
            ),
            ("[run]\ntrace = \"t\"\nformat = \"vhs\"", "format = vhs: use one of fio"),
            ("[run]\ntrace = \"t\"\ncolumns = \"op,offset\"", "columns = op,offset: name one column bytes"),
            ("[run]\ntrace = \"t\"\ncolumns = \"time,op,offset,bytes\"", "say in which unit the times are"),
            (
                "[run]\ntrace = \"t\"\ncolumns = \"time,op,offset,bytes\"\ntime_unit = \"h\"",
                "time_unit = h: use s, ms",
            ),
            (
                "[run]\ntrace = \"t\"\ncolumns = \"op,offset,bytes\"\noffset_unit = \"mile\"",
                "offset_unit = mile: use byte, sector",
            ),
            (
                "[run]\ntrace = \"t\"\ncolumns = \"op,offset,bytes\"\noperations = \"peek=1\"",
                "operations = peek=1: say what stands for",
            ),
            ("[run]\ntrace = \"t\"\ntime_unit = \"us\"", "time_unit = us: it needs columns"),
            ("[run]\ntrace = \"t\"\noffset_unit = \"4K\"", "offset_unit = 4K: it needs columns"),
            ("[run]\ntrace = \"t\"\noperations = \"read=0\"", "operations = read=0: it needs columns"),
            ("[run]\ntrace = \"t\"\nblkparse_format = \"%a\"", "blkparse_format = %a: it needs %d"),
            ("[run]\ntrace = \"t\"\naction = \"Z\"", "action = Z: use Q (queued)"),
            (
                "[run]\ntrace = \"t\"\nformat = \"msr\"\ncolumns = \"op,offset,bytes\"",
                "columns = op,offset,bytes: it says what format says, too",
            ),
            ("[run]\ntrace = \"t\"\noffset_unit = 4096", "offset_unit = 4096: it must be a text in quotes"),
        ];
        for (text, expected) in cases {
            let error = grid(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let wide = (0..6).map(|axis| format!("a{axis} = [{}]\n", "1,".repeat(20))).collect::<String>();
        assert!(matches!(grid(&format!("[axes]\n{wide}")), Err(SweepError::TooMany { .. })));
    }
}
