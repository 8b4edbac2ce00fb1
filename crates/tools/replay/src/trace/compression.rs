//! Compressed traces, recognised by the bytes at their beginning: gzip and Zstandard are unpacked while they are read.
//!
//! Files made of several members or frames, as `cat`, `pigz` and `pzstd` make them, are read to their end. Checksums are
//! checked, and a file that was cut short is an error.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes read from a file at once. blktrace wrote a file for each processor, and all are read together.
const BUFFER: usize = 1 << 17;

/// Bytes from which the format is recognised: more than where the magic of a tar archive ends.
const HEAD: u64 = 512;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The last three bytes of a skippable frame's magic; its first is 0x50 to 0x5f (RFC 8878, section 3.1.2).
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

/// What is not unpacked here: its magic, where that stands, its name, and what to do instead.
const OTHERS: [(&[u8], usize, &str, &str); 5] = [
    (b"\xfd7zXZ\0", 0, "compressed with xz", "use xz -dc FILE | tantalum replay -"),
    (b"BZh", 0, "compressed with bzip2", "use bzip2 -dc FILE | tantalum replay -"),
    (b"PK\x03\x04", 0, "a zip archive", "use unzip -p FILE MEMBER | tantalum replay -"),
    (b"7z\xbc\xaf\x27\x1c", 0, "a 7z archive", "unpack it first"),
    (b"ustar", 257, "a tar archive", "use tar -xOf FILE MEMBER | tantalum replay -"),
];

/// The contents of a file, and the bytes at their beginning.
pub(super) struct Unpacked {
    pub head: Vec<u8>,
    pub reader: Box<dyn BufRead>,
}

/// Why a file is not unpacked.
pub(super) enum Refused {
    /// It cannot be read.
    Io(io::Error),
    /// What it is, and what to do.
    Other(&'static str, &'static str),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

/// Reads what is in a file.
pub(super) fn unpack(file: impl Read + 'static) -> Result<Unpacked, Refused> {
    let file = known(Box::new(BufReader::with_capacity(BUFFER, file)))?;
    if file.head.starts_with(GZIP) {
        return known(Box::new(BufReader::with_capacity(BUFFER, Whole(MultiGzDecoder::new(file.reader)))));
    }
    if file.head.starts_with(&ZSTD) || is_skippable(&file.head) {
        let frames = Frames { source: file.reader, decoder: FrameDecoder::new(), inside: false };
        return known(Box::new(BufReader::with_capacity(BUFFER, Whole(frames))));
    }
    Ok(file)
}

fn is_skippable(head: &[u8]) -> bool {
    head.first().is_some_and(|byte| byte & 0xf0 == 0x50) && head[1..].starts_with(ZSTD_SKIPPABLE)
}

/// Looks at the beginning of what is read.
fn known(mut reader: Box<dyn BufRead>) -> Result<Unpacked, Refused> {
    let mut head = Vec::new();
    Read::take(&mut reader, HEAD).read_to_end(&mut head)?;
    for (magic, at, what, instead) in OTHERS {
        if head.get(at..).is_some_and(|bytes| bytes.starts_with(magic)) {
            return Err(Refused::Other(what, instead));
        }
    }
    Ok(Unpacked { reader: Box::new(Cursor::new(head.clone()).chain(reader)), head })
}

/// Compressed data, whose end before it is expected is told in plain words.
struct Whole<R>(R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            kind @ io::ErrorKind::UnexpectedEof => io::Error::new(kind, "the file is cut off"),
            _ => error,
        })
    }
}

/// The frames of a Zstandard file, one after the other.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> Frames<R> {
    /// Begins the next frame; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.inside {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => self.inside = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut Read::take(&mut self.source, length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(true)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() && self.begin()? {
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(failed)?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            let stored = self.decoder.get_checksum_from_data();
            if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
                return Err(damaged("its checksum is wrong"));
            }
            self.inside = false;
        }
        Ok(0)
    }
}

/// What the decoder says; the system's error if that is the cause.
fn failed(error: FrameDecoderError) -> io::Error {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(system) = inner.downcast_ref::<io::Error>() {
            return io::Error::new(system.kind(), system.to_string());
        }
        cause = inner.source();
    }
    damaged(error)
}

fn damaged(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the Zstandard data are damaged: {}", why.to_string()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    pub(in crate::trace) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(in crate::trace) fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn unpacked(file: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        match unpack(Cursor::new(file)) {
            Ok(mut unpacked) => unpacked.reader.read_to_end(&mut all).map(|_| all),
            Err(Refused::Io(error)) => Err(error),
            Err(Refused::Other(what, _)) => panic!("{what}"),
        }
    }

    fn lines() -> Vec<u8> {
        (0..20_000).flat_map(|number| format!("{number},W,0,4096,{number}\n").into_bytes()).collect()
    }

    #[test]
    fn members_and_frames_are_read_to_the_end() {
        let (lines, skippable) = (lines(), b"\x5a\x2a\x4d\x18\x03\0\0\0abc".to_vec());
        assert_eq!(unpacked(lines.clone()).unwrap(), lines);
        let (front, back) = lines.split_at(70_001);
        assert_eq!(unpacked([gzip(front), gzip(back)].concat()).unwrap(), lines);
        let frames = [skippable.clone(), zstd(front), skippable, zstd(b""), zstd(back)].concat();
        assert_eq!(unpacked(frames).unwrap(), lines);
        assert_eq!(unpacked(Vec::new()).unwrap(), b"");
    }

    /// A file that lost its end, or a byte of it, gives no shorter trace.
    #[test]
    fn damaged_files_are_errors() {
        for whole in [gzip(&lines()), zstd(&lines())] {
            for length in [4, 20, whole.len() / 2, whole.len() - 1] {
                let error = unpacked(whole[..length].to_vec()).unwrap_err().to_string();
                assert_eq!(error, "the file is cut off", "{length} of {} bytes", whole.len());
            }
            let mut flipped = whole.clone();
            *flipped.last_mut().unwrap() ^= 1;
            assert!(unpacked(flipped).is_err());
        }
    }

    #[test]
    fn archives_and_other_compression_are_named() {
        let mut tar = vec![b'x'; 300];
        tar[257..262].copy_from_slice(b"ustar");
        let zip = b"PK\x03\x04".to_vec();
        for (file, name) in
            [(tar.clone(), "tar"), (gzip(&tar), "tar"), (zip, "zip"), (b"BZh9".to_vec(), "bzip2")]
        {
            match unpack(Cursor::new(file)) {
                Err(Refused::Other(what, instead)) => assert!(what.contains(name) && !instead.is_empty()),
                _ => panic!("{name}"),
            }
        }
    }
}
