//! No mapping: this host has no way to reserve space.

use std::io;
use std::sync::MutexGuard;

use super::super::host_file::HostFile;

/// Unsupported: this host has no way to reserve space.
#[derive(Debug)]
pub(super) enum Map {}

/// Pieces for it.
pub(in super::super) enum KernelCopies {}

impl KernelCopies {
    pub fn new() -> Option<KernelCopies> {
        None
    }

    pub fn gather(&mut self, _data: &[u8], _at: u64) -> bool {
        match *self {}
    }

    pub fn lay_over(&self, _data: &mut [u8], _at: u64) {
        match *self {}
    }
}

impl Map {
    pub fn new(_file: &HostFile) -> Option<Map> {
        None
    }

    pub fn takes_stores(&self) -> bool {
        match *self {}
    }

    pub fn copies(&self) -> Option<MutexGuard<'_, KernelCopies>> {
        match *self {}
    }

    pub fn copy_from(&self, _copies: &mut KernelCopies, _file: &HostFile) -> io::Result<()> {
        match *self {}
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
