//! The actions of a run, line by line on standard error, for understanding a finding.

use tantalum::{Command, Completion, DeviceError, Hint, InFlight, KvRecord, Lpn, RecoveryReport, Status};

/// A command as one line, data as their first stamps; none of commands that only read.
pub(super) fn of(command: &Command<'_>) -> Option<String> {
    let units = |data: &[u8]| data.len() / tantalum::UNIT_BYTES;
    let written = |lpn: &Lpn, data: &[u8], fua: bool| {
        let fua = if fua { " fua" } else { "" };
        format!("write {lpn}..{} = {}{fua}", lpn.0 as usize + units(data), stamp(data))
    };
    Some(match command {
        Command::Write { lpn, data, fua } => written(lpn, data, *fua),
        Command::WriteWithMetadata { lpn, data, fua, .. } => written(lpn, data, *fua) + " with metadata",
        Command::WriteHinted { lpn, data, hint, .. } => {
            format!("hinted {lpn} = {}: {}", stamp(data), hint_of(hint))
        }
        Command::WriteAtomic { writes } => format!("atomic {}", units_of(writes)),
        Command::WriteBatch { writes, records } => {
            format!("batch {}, {}", units_of(writes), records_of(records))
        }
        Command::FsWrite { lpn, data, file, offset } => {
            written(lpn, data, true) + &format!(" at {offset} of file {}", file.0)
        }
        Command::TxWrite { tx, lpn, data } => format!("in {tx}: {lpn} = {}", stamp(data)),
        Command::KvPut { records } => format!("put {}", records_of(records)),
        Command::Share { ranges, deferred } => {
            let ranges: Vec<String> =
                ranges.iter().map(|range| format!("{} from {}", range.dst, range.src)).collect();
            format!("share {}{}", ranges.join(", "), if *deferred { " deferred" } else { "" })
        }
        Command::Read { .. }
        | Command::ReadLater { .. }
        | Command::ReadWithMetadata { .. }
        | Command::TxRead { .. }
        | Command::KvGet { .. }
        | Command::KvExists { .. }
        | Command::KvList { .. }
        | Command::ReadFileList { .. }
        | Command::ListFiles { .. } => return None,
        other => format!("{other:?}"),
    })
}

fn hint_of(hint: &Hint) -> String {
    let home = hint.home.map_or_else(|| "none".to_owned(), |home| home.to_string());
    format!(
        "log {} attempt {} from {} transaction from {} slot {}{}, home {home}",
        hint.generation,
        hint.attempt,
        hint.start,
        hint.first,
        hint.slot,
        if hint.end { " end" } else { "" },
    )
}

/// The stamp that data begin with.
fn stamp(data: &[u8]) -> u64 {
    data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn units_of(writes: &[(Lpn, &[u8])]) -> String {
    let units = writes.iter().map(|(lpn, data)| format!("{lpn} = {}", stamp(data)));
    units.collect::<Vec<_>>().join(", ")
}

fn records_of(records: &[KvRecord<'_>]) -> String {
    let value_of = |record: &KvRecord<'_>| match record.value {
        None => "nothing".to_owned(),
        Some(value) => format!("{} in {} bytes", stamp(value), value.len()),
    };
    let records =
        records.iter().map(|record| format!("{} {} = {}", record.namespace, record.key, value_of(record)));
    records.collect::<Vec<_>>().join(", ")
}

/// A command with its answer.
pub(super) fn answer(at_ns: u64, command: &str, answer: &Result<Completion, Status>) {
    match answer {
        Ok(completion) => eprintln!("{at_ns:>12} {command}; done {}", completion.done_ns),
        Err(status) => eprintln!("{at_ns:>12} {command}; REFUSED: {status}"),
    }
}

/// Power is lost.
pub(crate) fn cut(at_ns: u64, in_flight: &[InFlight]) {
    eprintln!("{at_ns:>12} POWER LOST; under way: {in_flight:?}");
}

/// Power came back.
pub(crate) fn power_on(recovered: &Result<RecoveryReport, DeviceError>) {
    match recovered {
        Ok(report) => eprintln!("             POWER ON: {report:?}"),
        Err(error) => eprintln!("             NO POWER: {error}"),
    }
}
