//! No mapping: this host has no way to reserve space.

use std::io;

use super::super::host_file::HostFile;

/// Unsupported: this host has no way to reserve space.
#[derive(Debug)]
pub(super) enum Map {}

impl Map {
    pub fn new(_file: &HostFile) -> Option<Map> {
        None
    }

    pub fn is_ready(&self, _at: u64, _bytes: usize) -> bool {
        match *self {}
    }

    pub fn reserve(&self, _file: &HostFile, _at: u64, _bytes: usize) {
        match *self {}
    }

    pub fn read(&self, _file: &HostFile, _data: &mut [u8], _at: u64) -> bool {
        match *self {}
    }

    pub fn prefetch(&self, _at: u64, _bytes: usize) {
        match *self {}
    }

    pub fn write(&self, _file: &HostFile, _data: &[u8], _at: u64) -> io::Result<bool> {
        match *self {}
    }
}
