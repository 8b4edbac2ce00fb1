//! `TANTALUM_LOG`: a line on standard error for each command of a drive, with what it waited for.
//!
//! Its value is a list of kinds of commands, `all` for every kind, and of least latencies: `write,flush,1ms`.

use std::fmt::{Debug, Write as _};
use std::io::Write as _;

use tantalum::TRACE_TARGET;
use tantalum_report::InvalidSetting;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The environment variable.
const VARIABLE: &str = "TANTALUM_LOG";

const KINDS: [&str; 6] = ["read", "write", "put", "get", "flush", "map"];

/// Units of time, the longest name first.
const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Which commands get a line.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Filter {
    /// All, if there are none.
    kinds: Vec<String>,
    least_ns: u64,
}

/// Prints lines from now on, if the environment asks for them.
///
/// # Errors
/// If it asks for something that there is not.
pub fn start() -> Result<(), InvalidSetting> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(()) };
    let lines = Lines(Filter::of(&text)?);
    tracing::subscriber::set_global_default(lines).expect("nobody else sets one");
    Ok(())
}

impl Filter {
    fn of(text: &str) -> Result<Filter, InvalidSetting> {
        let mut filter = Filter::default();
        for part in text.split(',').map(str::trim) {
            match nanoseconds(part) {
                Some(ns) => filter.least_ns = ns,
                None if part == "all" => {}
                None if KINDS.contains(&part) => filter.kinds.push(part.to_owned()),
                None => return Err(invalid(part)),
            }
        }
        Ok(filter)
    }

    fn takes(&self, line: &Line) -> bool {
        let is_kind = self.kinds.is_empty() || self.kinds.contains(&line.kind);
        is_kind && (line.latency_ns >= self.least_ns || line.has_failed)
    }
}

fn invalid(part: &str) -> InvalidSetting {
    let expected = format!("use all, {}, or a least latency such as 500us", KINDS.join(", "));
    InvalidSetting::new(VARIABLE, part, expected)
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|character: char| !character.is_ascii_digit())?);
    let &(_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(unit_ns)
}

/// Prints each command that the filter takes.
struct Lines(Filter);

/// A line: the command, and everything else as `name=value`.
#[derive(Default)]
struct Line {
    text: String,
    kind: String,
    latency_ns: u64,
    has_failed: bool,
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "latency_ns" {
            self.latency_ns = value;
        }
        self.record_debug(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "kind" {
            self.kind = value.to_owned();
        }
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.has_failed |= field.name() == "failed";
        // a string takes everything
        let _ = match field.name() {
            "command" => write!(self.text, "{value:?}"),
            name => write!(self.text, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TRACE_TARGET
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        if self.0.takes(&line) {
            // nobody may be there to read it
            let _ = writeln!(std::io::stderr().lock(), "{}", line.text);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_kinds_and_a_least_latency() {
        let filter = Filter::of("write, flush,20ms").unwrap();
        let line = |kind: &str, latency_ns| Line { kind: kind.to_owned(), latency_ns, ..Line::default() };
        assert!(filter.takes(&line("write", 20_000_000)) && filter.takes(&line("flush", 30_000_000)));
        assert!(!filter.takes(&line("write", 19_999_999)) && !filter.takes(&line("read", 20_000_000)));
        assert!(filter.takes(&Line { has_failed: true, ..line("write", 0) }));
        assert_eq!(Filter::of("all").unwrap(), Filter::default());
        for wrong in ["", "writes", "5", "5m", "99999999999s"] {
            assert!(Filter::of(wrong).is_err(), "{wrong:?}");
        }
    }
}
