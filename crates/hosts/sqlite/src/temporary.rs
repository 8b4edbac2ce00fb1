//! A temporary file without a name: SQLite's sorters, statement journals and temporary tables. It is in host memory, as
//! it would be in a system's page cache.

use crate::fault::Fault;

/// The file.
#[derive(Debug, Default)]
pub(crate) struct TemporaryFile {
    data: Vec<u8>,
}

impl TemporaryFile {
    /// Reads; fewer bytes than requested at the end.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.data.len());
        let bytes = data.len().min(self.data.len() - start);
        data[..bytes].copy_from_slice(&self.data[start..start + bytes]);
        bytes
    }

    /// Writes.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let start = usize::try_from(offset).map_err(|_| Fault::Offset(i64::MAX))?;
        let end = start + data.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[start..end].copy_from_slice(data);
        Ok(())
    }

    /// Truncates or extends the file.
    pub fn truncate(&mut self, bytes: u64) -> Result<(), Fault> {
        let bytes = usize::try_from(bytes).map_err(|_| Fault::Offset(i64::MAX))?;
        self.data.resize(bytes, 0);
        Ok(())
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.data.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut file = TemporaryFile::default();
        file.write(3, b"abc").unwrap();
        let mut data = [9; 8];
        assert_eq!(file.read(1, &mut data), 5);
        assert_eq!(data, [0, 0, b'a', b'b', b'c', 9, 9, 9]);
        file.truncate(4).unwrap();
        assert_eq!((file.size(), file.read(9, &mut data)), (4, 0));
    }
}
