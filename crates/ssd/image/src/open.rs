//! Creating and opening an image file: its header, and whether the file can be opened.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use zerocopy::{FromZeros, IntoBytes};

use super::file::{FileImage, io_error};
use super::host_faults::TestHost;
use super::host_file::HostFile;
use super::layout::{
    DESCRIPTION_AT, Header, Layout, MAGIC, NVM_HEADER_AT, NvmHeader, VERSION, VERSION_WITH_NVM,
};
use super::locked_file::LockedFile;
use super::redo_log::{REDO_LOG_BYTES, RedoPlace};
use super::store::Store;
use super::tally::Tally;
use super::{Access, MAX_DESCRIPTION_BYTES, MAX_PROTECTED_BYTES};
use crate::error::{MediumError, NandError};
use crate::geometry::Geometry;
use crate::nvm_shape::NvmShape;
use crate::timing::Timing;

impl FileImage {
    /// A new image; the arguments have been checked. If that fails, there is none. A test has a `host`.
    pub fn create(
        path: &Path,
        geometry: Geometry,
        timing: Timing,
        description: &str,
        protected_bytes: u64,
        nvm: Option<NvmShape>,
        host: Option<TestHost>,
    ) -> Result<FileImage, MediumError> {
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => MediumError::Exists { path: path.to_owned() },
            _ => io_error(path, "create the image")(error).into(),
        })?;
        let nvm_bytes = nvm.map_or(0, |shape| shape.bytes);
        let layout = Layout::new(&geometry, protected_bytes, nvm_bytes, REDO_LOG_BYTES);
        let header = Header::new(&geometry, &timing, description, protected_bytes, nvm.is_some());
        let stored = || {
            let file = LockedFile::lock(HostFile::new(file, host), path)?;
            initialise(&file, path, layout.bytes, &header, description, nvm)?;
            Ok(Store::file(file, None).map_err(io_error(path, "open the image a second time"))?)
        };
        let store = stored().inspect_err(|_: &MediumError| {
            // The reported error matters more than a file that could not be removed.
            let _ = std::fs::remove_file(path);
        })?;
        Ok(FileImage::assemble(path, store, geometry, layout, protected_bytes, nvm))
    }

    /// Opens an image and checks its header and length. Also returns its times and description. Its records must still
    /// be read ([`super::Contents::load`]). A test has a `host`.
    pub fn open(
        path: &Path,
        access: Access,
        host: Option<TestHost>,
    ) -> Result<(FileImage, Timing, String), MediumError> {
        let error = |action| io_error(path, action);
        let opened = OpenOptions::new().read(true).write(access != Access::Overlay).open(path);
        let file = opened.map_err(error("open the image"))?;
        let file = HostFile::new(file, host);
        if !file.is_regular().map_err(error("read the kind of the file"))? {
            return Err(MediumError::NotAnImage { path: path.to_owned() });
        }
        let file = match access {
            Access::Overlay => LockedFile::lock_to_read(file, path)?,
            Access::Write | Access::Ordered => LockedFile::lock(file, path)?,
        };
        let file_bytes = file.length().map_err(error("read the size of the image"))?;
        let header = read_header(&file, path, file_bytes)?;
        let description = read_description(&file, path, &header, file_bytes)?;
        let (geometry, timing) = (header.geometry(), header.timing());
        let protected_bytes = header.protected_bytes.get();
        check_possible(&geometry, &timing, protected_bytes).map_err(|source| {
            MediumError::ImpossibleHeader { path: path.to_owned(), source: Box::new(source) }
        })?;
        let log_bytes = u64::from(header.log_bytes.get());
        if ![0, REDO_LOG_BYTES].contains(&log_bytes) {
            return Err(MediumError::LogBytes {
                path: path.to_owned(),
                bytes: log_bytes,
                expected: REDO_LOG_BYTES,
            });
        }
        let nvm = read_nvm_header(&file, path, &header)?;
        let layout = Layout::new(&geometry, protected_bytes, nvm.map_or(0, |nvm| nvm.bytes), log_bytes);
        check_length(path, file_bytes, layout.bytes)?;
        let store = open_store(file, path, access, layout.log)?;
        let image = FileImage::assemble(path, store, geometry, layout, protected_bytes, nvm);
        Ok((image, timing, description))
    }
}

/// Where changes go.
fn open_store(
    file: LockedFile,
    path: &Path,
    access: Access,
    log: Option<RedoPlace>,
) -> Result<Store, MediumError> {
    let store = match (access, log) {
        (Access::Write, log) => Store::file(file, log),
        (Access::Overlay, log) => Store::overlay(file, log),
        (Access::Ordered, Some(log)) => Store::ordered(file, log),
        (Access::Ordered, None) => return Err(MediumError::NoLog { path: path.to_owned() }),
    };
    Ok(store.map_err(io_error(path, "apply the redo log of the image"))?)
}

/// Writes the parts of a new image that are not holes.
fn initialise(
    file: &HostFile,
    path: &Path,
    bytes: u64,
    header: &Header,
    description: &str,
    nvm: Option<NvmShape>,
) -> Result<(), NandError> {
    file.set_length(bytes).map_err(io_error(path, "set the length of the image"))?;
    let write = |bytes: &[u8], at, action| file.write_all_at(bytes, at).map_err(io_error(path, action));
    write(description.as_bytes(), DESCRIPTION_AT, "write the description")?;
    let tally = Tally::new(0, 0, 0);
    write(tally.as_bytes(), tally.place(), "write the tally")?;
    if let Some(shape) = nvm {
        let header = NvmHeader::new(&shape);
        write(header.as_bytes(), NVM_HEADER_AT, "write the header of the non-volatile memory")?;
    }
    write(header.as_bytes(), 0, "write the header")
}

fn read_header(file: &HostFile, path: &Path, file_bytes: u64) -> Result<Header, MediumError> {
    let mut header = Header::new_zeroed();
    let present = file_bytes.min(size_of::<Header>() as u64) as usize;
    file.read_exact_at(&mut header.as_mut_bytes()[..present], 0)
        .map_err(io_error(path, "read the header"))?;
    if header.magic != MAGIC {
        return Err(MediumError::NotAnImage { path: path.to_owned() });
    }
    check_length(path, file_bytes, size_of::<Header>() as u64)?;
    if ![VERSION, VERSION_WITH_NVM].contains(&header.version.get()) {
        let found = header.version.get();
        return Err(MediumError::Version { path: path.to_owned(), found, supported: VERSION_WITH_NVM });
    }
    Ok(header)
}

/// The non-volatile memory, of an image whose version has it.
fn read_nvm_header(file: &HostFile, path: &Path, header: &Header) -> Result<Option<NvmShape>, MediumError> {
    if header.version.get() != VERSION_WITH_NVM {
        return Ok(None);
    }
    let mut nvm = NvmHeader::new_zeroed();
    file.read_exact_at(nvm.as_mut_bytes(), NVM_HEADER_AT)
        .map_err(io_error(path, "read the header of the non-volatile memory"))?;
    let (stored, computed) = (nvm.checksum.get(), nvm.computed_checksum());
    if stored != computed {
        return Err(MediumError::HeaderChecksum { path: path.to_owned(), stored, computed });
    }
    let shape = nvm.shape();
    shape.validate().map_err(|source| MediumError::ImpossibleHeader {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    Ok(Some(shape))
}

fn read_description(
    file: &HostFile,
    path: &Path,
    header: &Header,
    file_bytes: u64,
) -> Result<String, MediumError> {
    // A length that is too large can only be damage; then the checksum of what is there is wrong.
    let bytes = (header.description_bytes.get() as usize).min(MAX_DESCRIPTION_BYTES);
    check_length(path, file_bytes, DESCRIPTION_AT + bytes as u64)?;
    let mut description = vec![0; bytes];
    file.read_exact_at(&mut description, DESCRIPTION_AT).map_err(io_error(path, "read the description"))?;
    let (stored, computed) = (header.checksum.get(), header.checksum_with(&description));
    if stored != computed {
        return Err(MediumError::HeaderChecksum { path: path.to_owned(), stored, computed });
    }
    String::from_utf8(description).map_err(|_| MediumError::DescriptionNotText { path: path.to_owned() })
}

fn check_possible(geometry: &Geometry, timing: &Timing, protected_bytes: u64) -> Result<(), MediumError> {
    geometry.validate()?;
    timing.validate()?;
    if protected_bytes > MAX_PROTECTED_BYTES {
        return Err(MediumError::ProtectedTooLarge { bytes: protected_bytes, limit: MAX_PROTECTED_BYTES });
    }
    Ok(())
}

pub(super) fn check_length(path: &Path, bytes: u64, expected: u64) -> Result<(), MediumError> {
    if bytes < expected {
        return Err(MediumError::Truncated { path: path.to_owned(), bytes, expected });
    }
    Ok(())
}
