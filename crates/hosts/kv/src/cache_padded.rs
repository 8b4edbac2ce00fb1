//! Values of several threads, each on cache lines of its own.

use std::ops::Deref;

/// A value that shares no cache line with another one, so that a thread that changes it does not slow down those that use others.
/// Processors of x86-64 fetch two lines of 64 bytes together.
#[repr(align(128))]
#[derive(Default, Debug)]
pub(crate) struct CachePadded<T>(T);

impl<T> From<T> for CachePadded<T> {
    fn from(value: T) -> CachePadded<T> {
        CachePadded(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
