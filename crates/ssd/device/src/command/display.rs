//! A command as one line, for traces: its name and its operands. Data are shown as the number in their first eight bytes.

use std::fmt;

use tantalum_ftl::{Handle, Hint, KvRecord, Lpn};
use tantalum_nand::UNIT_BYTES;

use super::Command;

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info().name)?;
        match self {
            Command::Read { lpn, data } | Command::ReadLater { lpn, data, .. } => {
                write!(f, " {}", Span(*lpn, data.len()))
            }
            Command::ReadWithMetadata { lpn, .. } => write!(f, " {lpn}"),
            Command::Write { lpn, data, fua, handle } => {
                let fua = if *fua { " fua" } else { "" };
                write!(f, " {} = {}{fua}{}", Span(*lpn, data.len()), stamp(data), placed(*handle))
            }
            Command::WriteWithMetadata { lpn, data, fua, .. } => {
                let fua = if *fua { " fua" } else { "" };
                write!(f, " {} = {}{fua}", Span(*lpn, data.len()), stamp(data))
            }
            Command::WriteFilled { lpn, data, handle, .. } => {
                write!(f, " {} = {}{}", Span(*lpn, data.len()), stamp(data), placed(*handle))
            }
            Command::FsWrite { lpn, data, file, offset } => {
                let (span, stamp) = (Span(*lpn, data.len()), stamp(data));
                write!(f, " {span} = {stamp} at {offset} of file {}", file.0)
            }
            Command::WriteHinted { lpn, data, hint, .. } => {
                write!(f, " {lpn} = {}: {}", stamp(data), hint_of(hint))
            }
            Command::WriteAtomic { writes } => write!(f, " {}", units_of(writes)),
            Command::WriteBatch { writes, records } => {
                write!(f, " {}, {}", units_of(writes), records_of(records))
            }
            Command::KvPut { records } => write!(f, " {}", records_of(records)),
            Command::TxWrite { tx, lpn, data } => write!(f, " in {tx}: {lpn} = {}", stamp(data)),
            Command::TxRead { tx, lpn, .. } => write!(f, " in {tx}: {lpn}"),
            Command::Commit { tx } | Command::Abort { tx } => write!(f, " {tx}"),
            Command::WriteZeroes { lpn, units } | Command::Trim { lpn, units } => {
                write!(f, " {}", Span(*lpn, *units as usize * UNIT_BYTES))
            }
            Command::Share { ranges, deferred } => {
                let ranges = ranges.iter().map(|range| moved(range.src, range.dst, range.units));
                let deferred = if *deferred { " deferred" } else { "" };
                write!(f, " {}{deferred}", joined(ranges))
            }
            Command::Remap { src, dst, units } => write!(f, " {}", moved(*src, *dst, *units)),
            Command::ReadFileList { file, .. } => write!(f, " of file {}", file.0),
            Command::ClearFileLists { file: Some(file) } => write!(f, " of file {}", file.0),
            Command::ClearFileLists { file: None } => write!(f, " of all files"),
            Command::CreateNamespace { attributes, .. } => write!(f, " {attributes:?}"),
            Command::DeleteNamespace { namespace } => write!(f, " {namespace}"),
            Command::KvGet { namespace, key, .. }
            | Command::KvExists { namespace, key }
            | Command::KvDelete { namespace, key } => write!(f, " {namespace} {key}"),
            Command::KvList { namespace, from: Some(key), limit, .. } => {
                write!(f, " {namespace} from {key}, at most {limit}")
            }
            Command::KvList { namespace, from: None, limit, .. } => {
                write!(f, " {namespace}, at most {limit}")
            }
            Command::ZoneRead { zone, offset, data } => {
                write!(f, " {}..{} of zone {zone}", offset, *offset as usize + data.len() / UNIT_BYTES)
            }
            Command::ZoneWrite { zone, offset, data, fua } => {
                let (end, fua) = (*offset as usize + data.len() / UNIT_BYTES, if *fua { " fua" } else { "" });
                write!(f, " {offset}..{end} of zone {zone} = {}{fua}", stamp(data))
            }
            Command::ZoneAppend { zone, data, fua, .. } => {
                let fua = if *fua { " fua" } else { "" };
                write!(f, " {} units to zone {zone} = {}{fua}", data.len() / UNIT_BYTES, stamp(data))
            }
            Command::ZoneManage { zone: Some(zone), action } => write!(f, " {action} zone {zone}"),
            Command::ZoneManage { zone: None, action } => write!(f, " {action} all zones"),
            Command::Flush | Command::Begin { .. } | Command::BeginLog { .. } | Command::ListFiles { .. } => {
                Ok(())
            }
        }
    }
}

/// With which handle units are placed, unless with none.
fn placed(handle: Option<Handle>) -> String {
    handle.map_or_else(String::new, |handle| format!(" with handle {handle}"))
}

/// A first unit, and the bytes of all units from there.
struct Span(Lpn, usize);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.0, self.0.0 as usize + self.1 / UNIT_BYTES)
    }
}

fn moved(src: Lpn, dst: Lpn, units: u32) -> String {
    let bytes = units as usize * UNIT_BYTES;
    format!("{} from {src}", Span(dst, bytes))
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

fn stamp(data: &[u8]) -> u64 {
    data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn units_of(writes: &[(Lpn, &[u8])]) -> String {
    joined(writes.iter().map(|(lpn, data)| format!("{lpn} = {}", stamp(data))))
}

fn records_of(records: &[KvRecord<'_>]) -> String {
    let value_of = |record: &KvRecord<'_>| match record.value {
        None => "nothing".to_owned(),
        Some(value) => format!("{} in {} bytes", stamp(value), value.len()),
    };
    joined(records.iter().map(|record| format!("{} {} = {}", record.namespace, record.key, value_of(record))))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use tantalum_ftl::{Key, NamespaceId, TxId};

    use super::*;

    #[test]
    fn a_line_has_the_name_the_operands_and_what_data_begin_with() {
        let mut data = [0; 2 * UNIT_BYTES];
        data[0] = 7;
        let write = Command::Write { lpn: Lpn(5), data: &data, fua: true, handle: None };
        assert_eq!(write.to_string(), "Write 5..7 = 7 fua");
        let writes = [(Lpn(1), &data[..UNIT_BYTES]), (Lpn(9), &data[UNIT_BYTES..])];
        let record = KvRecord { namespace: NamespaceId(2), key: Key::new(b"k").unwrap(), value: None };
        let batch = Command::WriteBatch { writes: &writes, records: &[record] };
        assert_eq!(batch.to_string(), format!("WriteBatch 1 = 7, 9 = 0, 2 {} = nothing", record.key));
        assert_eq!(Command::Remap { src: Lpn(3), dst: Lpn(8), units: 2 }.to_string(), "Remap 8..10 from 3");
        let mut tx = TxId(0);
        assert_eq!(Command::Begin { tx: &mut tx }.to_string(), "Begin");
    }
}
