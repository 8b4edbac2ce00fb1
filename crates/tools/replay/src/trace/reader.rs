//! Reads a trace request by request, in the order of time.
//!
//! Traces are written by many processors and disks, so lines stand a little out of order. The earliest of the next
//! [`SORTED`] requests comes first. One that is earlier still by more than that is issued late, and counted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::entries::{Entries, Entry};
use super::error::TraceError;
use super::format::Format;
use super::input::Input;
use super::open::{detect, entries};
use super::source::Source;
use super::{Parsed, Request};

/// Requests that are sorted by time at once.
const SORTED: usize = 1 << 14;

/// Volumes in one trace.
const MOST_VOLUMES: usize = 1 << 16;

/// Volumes that an error names.
const NAMED: usize = 8;

/// A trace that is being read.
pub(crate) struct Trace {
    source: Source,
    input: Input,
    format: Format,
    entries: Box<dyn Entries>,
    /// Bytes of its files read so far.
    bytes: Arc<AtomicU64>,
    wanted: HashSet<String>,
    numbers: HashMap<String, u32>,
    /// The earliest first; of equals, the first line.
    sorted: BinaryHeap<Reverse<Request>>,
    read: u64,
    at_end: bool,
    last_ns: u64,
    late: u64,
    latest_ns: u64,
    left_out: u64,
}

impl Trace {
    /// Begins to read a trace.
    pub(crate) fn open(source: &Source, input: &Input) -> Result<Trace, TraceError> {
        let bytes = Arc::default();
        let format = source.given().map_or_else(|| detect(input), Ok)?;
        if source.action.is_some() && !matches!(format, Format::Blktrace | Format::Blkparse) {
            return Err(TraceError::Action { path: source.path.clone(), format });
        }
        Ok(Trace {
            source: source.clone(),
            input: input.clone(),
            format,
            entries: entries(source, format, input, &bytes)?,
            bytes,
            wanted: source.volumes.iter().cloned().collect(),
            numbers: HashMap::new(),
            sorted: BinaryHeap::new(),
            read: 0,
            at_end: false,
            last_ns: 0,
            late: 0,
            latest_ns: 0,
            left_out: 0,
        })
    }

    /// The next request; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        // the first line may tell whether there are times
        while !self.at_end && self.sorted.len() < if self.entries.has_times() { SORTED } else { 1 } {
            match self.read()? {
                Some(request) => self.sorted.push(Reverse(request)),
                None => self.at_end = true,
            }
        }
        let Some(Reverse(mut request)) = self.sorted.pop() else { return Ok(None) };
        if request.at_ns < self.last_ns {
            self.late += 1;
            self.latest_ns = self.latest_ns.max(self.last_ns - request.at_ns);
            request.at_ns = self.last_ns;
        }
        self.last_ns = request.at_ns;
        Ok(Some(request))
    }

    /// The next wanted request in the order of lines.
    fn read(&mut self) -> Result<Option<Request>, TraceError> {
        if self.source.most_requests == Some(self.read) {
            return Ok(None);
        }
        loop {
            let Some(Entry { number: line, parsed }) = self.entries.advance()? else {
                self.end()?;
                return Ok(None);
            };
            let (volume, at_ns, operation, offset, bytes) = match parsed {
                Parsed::Nothing => continue,
                Parsed::LeftOut => {
                    self.left_out += 1;
                    continue;
                }
                Parsed::Request { volume, at_ns, operation, offset, bytes } => {
                    (volume, at_ns, operation, offset, bytes)
                }
            };
            if !self.wanted.is_empty() && !self.wanted.contains(volume) {
                continue;
            }
            let volume = match self.numbers.get(volume) {
                Some(number) => *number,
                None if self.numbers.len() == MOST_VOLUMES => {
                    let path = self.source.path.clone();
                    return Err(TraceError::TooManyVolumes { path, line, most: MOST_VOLUMES });
                }
                None => {
                    let number = self.numbers.len() as u32;
                    self.numbers.insert(volume.to_owned(), number);
                    number
                }
            };
            self.read += 1;
            return Ok(Some(Request { line, at_ns, volume, operation, offset, bytes }));
        }
    }

    /// Checks that all of the trace was what it was taken for.
    fn end(&self) -> Result<(), TraceError> {
        let path = || self.source.path.clone();
        self.entries.end().map_err(|expected| TraceError::End { path: path(), expected })?;
        let missing = self.source.volumes.iter().find(|name| !self.numbers.contains_key(*name));
        missing.map_or(Ok(()), |name| {
            Err(TraceError::NoSuchVolume { path: path(), name: name.clone(), known: self.some_volumes()? })
        })
    }

    /// Names of volumes that the trace has.
    fn some_volumes(&self) -> Result<String, TraceError> {
        let mut all = Trace::open(&Source { volumes: Vec::new(), ..self.source.clone() }, &self.input)?;
        while all.next()?.is_some() {}
        let mut names = all.volumes();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Ok(if names.is_empty() { "none".to_owned() } else { format!("{}{more}", names.join(" ")) })
    }

    /// Its format.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Whether its requests have times; known after the first line.
    pub(crate) fn has_times(&self) -> bool {
        self.entries.has_times()
    }

    /// The volumes so far, in the order of their numbers.
    pub(crate) fn volumes(&self) -> Vec<String> {
        let mut names: Vec<(&String, &u32)> = self.numbers.iter().collect();
        names.sort_by_key(|(_, number)| **number);
        names.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// Bytes of the file read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Requests that came too late to be sorted, and by how much at most.
    pub(crate) fn late(&self) -> (u64, u64) {
        (self.late, self.latest_ns)
    }

    /// Entries that were left out because too little is known of them.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// What a reader of the report must know about the trace as it was read so far.
    pub(crate) fn note(&self) -> Option<String> {
        self.entries.note()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use tantalum_report::Monitor;
    use tempfile::NamedTempFile;

    use super::*;
    use crate::trace::compression::tests::{gzip, zstd};
    use crate::trace::{Action, Columns, Operation};

    fn source(text: &str) -> (NamedTempFile, Source) {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let source = Source::of(file.path());
        (file, source)
    }

    fn open(source: &Source) -> Result<Trace, TraceError> {
        Trace::open(source, &Input::open(&source.path, &Monitor::silent())?)
    }

    fn all(source: &Source) -> Result<Vec<Request>, TraceError> {
        let mut trace = open(source)?;
        std::iter::from_fn(|| trace.next().transpose()).collect()
    }

    #[test]
    fn requests_come_in_the_order_of_time_and_then_of_lines() {
        let (_file, source) = source("0,W,0,4096,30\n1,R,4096,512,10\n\n0,W,8192,4096,10\n");
        let requests = all(&source).unwrap();
        let places: Vec<_> =
            requests.iter().map(|request| (request.line, request.volume, request.at_ns)).collect();
        assert_eq!(places, [(2, 1, 10_000), (4, 0, 10_000), (1, 0, 30_000)]);
    }

    #[test]
    fn what_is_too_late_to_be_sorted_is_issued_late_and_counted() {
        let mut text: String = (0..SORTED as u64).map(|at| format!("0,W,0,4096,{}\n", 100 + at)).collect();
        text.push_str("0,R,0,4096,200000\n0,R,0,4096,5\n");
        let (_file, source) = source(&text);
        let mut trace = open(&source).unwrap();
        let mut last_ns = 0;
        while let Some(request) = trace.next().unwrap() {
            assert!(request.at_ns >= last_ns);
            last_ns = request.at_ns;
        }
        // the first 2 were gone when the last line was read
        assert_eq!(trace.late(), (1, 96_000));
    }

    #[test]
    fn volumes_and_requests_are_chosen() {
        let (_file, all_of_it) = source("7,W,0,4096,1\n8,W,0,4096,2\n7,R,0,4096,3\n7,R,0,4096,4\n");
        let of = |volumes: &[&str], most_requests| {
            let volumes = volumes.iter().map(|name| (*name).to_owned()).collect();
            all(&Source { volumes, most_requests, ..all_of_it.clone() })
        };
        assert_eq!(of(&["7"], None).unwrap().len(), 3);
        assert_eq!(of(&["7"], Some(2)).unwrap().len(), 2);
        assert!(of(&["7"], None).unwrap().iter().all(|request| request.volume == 0));
        let error = of(&["9"], None).unwrap_err().to_string();
        assert!(error.ends_with("no volume \"9\"; it has 7 8"), "{error}");
    }

    #[test]
    fn errors_name_line_and_what_was_expected() {
        let (_file, wrong) = source("0,W,0,4096,1\n\n0,W,0,oops,2\n");
        let error = all(&wrong).unwrap_err().to_string();
        assert!(
            error.contains("line 3: expected a length in bytes in the fourth field, found \"0,W,0,oops,2\""),
            "{error}"
        );
        let (_file, unknown) = source("\n\nhello\n");
        let error = all(&unknown).unwrap_err().to_string();
        assert!(error.contains("line 3: \"hello\" is of no known format"), "{error}");
        let (_file, empty) = source("");
        assert!(matches!(all(&empty), Err(TraceError::Empty { .. })));
        let (_file, comments) = source("# nothing\n\n");
        let error = all(&comments).unwrap_err().to_string();
        assert!(error.ends_with(": the trace is empty"), "{error}");
        let forced = Source { format: Some(Format::Fio), ..unknown };
        let error = all(&forced).unwrap_err().to_string();
        assert!(error.contains("line 3: expected \"fio version 2 iolog\""), "{error}");
    }

    #[test]
    fn an_action_is_of_blktrace_alone() {
        let (_file, plain) = source("0,W,0,4096,1\n");
        let error = all(&Source { action: Some(Action::Queued), ..plain }).unwrap_err().to_string();
        assert!(error.contains("this trace is of the format alibaba; leave it out"), "{error}");
    }

    /// What was cut off is another trace, not a shorter one.
    #[test]
    fn a_compressed_file_without_its_end_is_told_by_its_name() {
        let text: String = (0..20_000).map(|at| format!("{at},W,0,4096,{at}\n")).collect();
        for whole in [gzip(text.as_bytes()), zstd(text.as_bytes())] {
            let mut file = NamedTempFile::new().unwrap();
            file.write_all(&whole[..whole.len() / 2]).unwrap();
            let error = all(&Source::of(file.path())).unwrap_err().to_string();
            assert_eq!(error, format!("{}: the file is cut off", file.path().display()));
        }
    }

    #[test]
    fn compression_byte_order_marks_comments_and_ends_of_lines_do_not_matter() {
        let plain = "419,W,8192,4096,10\n420,R,0,512,20\n";
        let expected = all(&source(plain).1).unwrap();
        let dressed = "# device_id,opcode\r\n\r\n419,W,8192,4096,10\r\n  # more\r\n420,R,0,512,20";
        let wide: Vec<u8> = dressed.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let marked = |mark: &[u8], text: &[u8]| [mark, text].concat();
        let texts = [
            plain.as_bytes().to_vec(),
            dressed.as_bytes().to_vec(),
            marked(b"\xef\xbb\xbf", dressed.as_bytes()),
            marked(b"\xff\xfe", &wide),
        ];
        for text in texts {
            for bytes in [text.clone(), gzip(&text), zstd(&text)] {
                let mut file = NamedTempFile::new().unwrap();
                file.write_all(&bytes).unwrap();
                let found = all(&Source::of(file.path())).unwrap();
                let without_lines = |requests: &[Request]| -> Vec<Request> {
                    requests.iter().map(|request| Request { line: 0, ..*request }).collect()
                };
                assert_eq!(without_lines(&found), without_lines(&expected), "{bytes:?}");
            }
        }
        // a damaged file is no shorter trace
        let mut file = NamedTempFile::new().unwrap();
        let packed = gzip(plain.as_bytes());
        file.write_all(&packed[..packed.len() - 1]).unwrap();
        assert!(matches!(all(&Source::of(file.path())), Err(TraceError::File { .. })));
        let (_file, zip) = source("PK\x03\x04");
        let error = all(&zip).unwrap_err().to_string();
        assert!(
            error.ends_with("it is a zip archive; use unzip -p FILE MEMBER | tantalum replay -"),
            "{error}"
        );
    }

    /// The beginning of a trace of each format.
    fn samples() -> Vec<(Source, Vec<u8>)> {
        let text = [
            ("fio", "fio version 3 iolog\n0 f add\n7 f write 0 512\n9 f sync 0 0\n"),
            ("fio", "fio version 2 iolog\nf write 0 512\nf wait 9\nf trim 0 512\n"),
            ("fio1", "0, 8192, 4096\n1, 0, 512\n"),
            ("blkparse", "  8,0    3       11     0.009507758   697  D   W 223490 + 56 [k]\nCPU0 (8,0):\n"),
            ("msr", "128166372003061629,web,2,Write,7014609920,24576,41286\n"),
            ("alibaba", "419,W,8192,4096,10\n420,R,0,512,20\n"),
            ("spc", "0,303567,3584,w,0.000000\n1,55596,3072,R,0.078643\n"),
            ("systor", "1456095145.133076000,0.000806000,R,0,899056122368,131072\n1.0,2.0,,0,1,2\n"),
            ("tencent", "1538323200,12910952,128,0,1063\n"),
            (
                "etw",
                "BeginHeader\nDiskRead, TimeStamp, ByteOffset, IOSize, DiskNum\nEndHeader\nDiskRead, 1, 0x1, 0x2, 3\n",
            ),
            ("mqsim", "4851300 1 524288 16 0\n"),
        ];
        let mut all: Vec<(Source, Vec<u8>)> = text
            .map(|(name, text)| {
                let format = Some(name.parse().unwrap());
                (Source { format, ..Source::of(Path::new("")) }, text.as_bytes().to_vec())
            })
            .into();
        let record: Vec<u8> = [0x6561_7407u32, 1, 5, 0, 8, 0, 512, 0x42_0007, 7, 8 << 20, 0, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let command = [9u32, 512, 1, 0x0103_0028, 8, 0, 5, 0].iter().flat_map(|word| word.to_le_bytes());
        for (name, bytes) in [("blktrace", record), ("cloudphysics", command.collect())] {
            let format = Some(name.parse().unwrap());
            all.push((Source { format, ..Source::of(Path::new("")) }, bytes.repeat(2)));
        }
        let names = "time,op,offset,sectors,volume,-".parse().unwrap();
        let (time, operations) = (Some("ms".parse().unwrap()), "read=0,write=1".parse().unwrap());
        let columns = Some(Columns::new(names, time, "4K".parse().unwrap(), operations).unwrap());
        all.push((
            Source { columns, ..Source::of(Path::new("")) },
            b"a b c d e f\n1.5 W 0x8 9 v x\n2 0 1 1 v x\n".to_vec(),
        ));
        let blkparse_format = Some("%T.%9t %2a,%3d (%D) %S|%n [%C]".parse().unwrap());
        let source = Source { blkparse_format, ..Source::of(Path::new("")) };
        all.push((source, b"0.000000005 D,  W (8,0) 8|16 [a b]\n".to_vec()));
        all
    }

    #[test]
    fn each_sample_is_read_and_binary_ones_are_recognised() {
        for (source, bytes) in samples() {
            let mut file = NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            let source = Source { path: file.path().to_owned(), ..source };
            let requests = all(&source).unwrap_or_else(|error| panic!("{error}"));
            assert!(!requests.is_empty(), "{source:?}");
            let shown = all(&Source::of(file.path()));
            match source.given().unwrap() {
                Format::Fio1 | Format::Tencent | Format::Mqsim => {
                    assert!(matches!(shown, Err(TraceError::Ambiguous { .. })), "{shown:?}");
                }
                Format::Columns => assert!(shown.is_err()),
                Format::Blkparse if source.blkparse_format.is_some() => assert!(shown.is_err()),
                _ => assert_eq!(shown.unwrap(), requests),
            }
        }
    }

    /// Nothing that a file holds panics or makes the reader keep much of it: `HOSTILE_SEED=17` repeats one seed.
    #[test]
    fn hostile_files_are_errors() {
        let long = format!("0,W,0,4096,1\n{}", "9".repeat(1 << 16));
        let (_file, long) = source(&long);
        assert!(matches!(all(&long), Err(TraceError::Line { line: 2, .. })));
        let seed = std::env::var("HOSTILE_SEED").map_or(17, |seed| seed.parse().unwrap());
        let mut random = tantalum_image::SplitMix64(seed);
        const BYTES: &[u8] = b"0123456789,, .x\n\tRWDFread write8,0 + [fio version 3 iolog#\xff\0\x07ta(";
        for (source, sample) in samples() {
            for round in 0..150 {
                let mut bytes = match round % 3 {
                    0 => (0..random.below(300))
                        .map(|_| BYTES[random.below(BYTES.len() as u64) as usize])
                        .collect(),
                    _ => sample.clone(),
                };
                for _ in 0..random.below(4).min(bytes.len() as u64) {
                    let at = random.below(bytes.len() as u64) as usize;
                    match random.below(3) {
                        0 => bytes[at] = random.below(256) as u8,
                        1 => bytes[at] = BYTES[random.below(BYTES.len() as u64) as usize],
                        _ => bytes.truncate(at + 1),
                    }
                }
                bytes = match round % 5 {
                    0 => gzip(&bytes),
                    1 => zstd(&bytes),
                    _ => bytes,
                };
                if round % 7 == 0 && !bytes.is_empty() {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
                let mut file = NamedTempFile::new().unwrap();
                file.write_all(&bytes).unwrap();
                let path = file.path().to_owned();
                let _ = all(&Source { path: path.clone(), ..source.clone() });
                let _ = all(&Source::of(&path));
            }
        }
    }

    #[test]
    fn version_2_of_fio_has_no_times_and_keeps_its_order() {
        let (_file, source) = source("fio version 2 iolog\nf write 0 512\nf sync 0 0\nf read 0 512\n");
        let mut trace = open(&source).unwrap();
        let first = trace.next().unwrap().unwrap();
        assert!(!trace.has_times());
        assert_eq!((first.line, trace.bytes_read()), (2, 58));
        assert_eq!(trace.next().unwrap().unwrap().operation, Operation::Flush);
    }
}
