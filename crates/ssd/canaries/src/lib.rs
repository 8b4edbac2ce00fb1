//! Guards against data loss that a test can take out, to prove that it notices.
//!
//! What guards is marked where it is done, with [`guard!`], and the code reads as what is right:
//!
//! ```ignore
//! let done_ns = guard!(EraseBeforeCopies, self.nand.released_ns(block));
//! ```
//!
//! `canaries.rs` of the same crate declares the guard, with [`guards!`], as a function that is named for what then happens and
//! does what is done without the guard:
//!
//! ```ignore
//! /// A block is erased while copies of its units are still being programmed.
//! #[hazard(3)]
//! fn EraseBeforeCopies() -> Nanoseconds { 0 }
//! ```
//!
//! A test takes it out with [`take_out`], by its name: `take_out(&canaries::EraseBeforeCopies)`.
//!
//! `canaries.rs` is compiled only with the crate's feature `canaries`, which needs debug assertions, so no release can contain
//! it. Without the feature [`guard!`] is what it guards, and nothing else. `tests/declared.rs` checks that each guard is in
//! use, and that some test takes it out.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A guard that a crate has declared.
pub struct Guard {
    name: &'static str,
    without: &'static str,
    hazard: Option<u8>,
}

/// The address of the guard that is out on this thread, and of the one that is out in the whole process; 0 for none.
/// Guards are statics, so each has an address of its own.
const NONE: usize = 0;
thread_local! {
    static OUT: Cell<usize> = const { Cell::new(NONE) };
}
static OUT_EVERYWHERE: AtomicUsize = AtomicUsize::new(NONE);

impl Guard {
    /// For [`guards!`].
    #[doc(hidden)]
    pub const fn declared(name: &'static str, without: &'static str, hazard: Option<u8>) -> Guard {
        Guard { name, without, hazard }
    }

    /// Its name: what happens without it, in a word.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What happens without it, in a sentence.
    pub fn without(&self) -> &'static str {
        self.without
    }

    /// Its hazard's number in docs/internals/hazards.md, if it has one.
    pub fn hazard(&self) -> Option<u8> {
        self.hazard
    }

    /// Whether it is out, on this thread or everywhere.
    #[inline]
    pub fn is_out(&'static self) -> bool {
        let address = self.address();
        OUT.get() == address || OUT_EVERYWHERE.load(Ordering::Relaxed) == address
    }

    #[inline]
    fn address(&'static self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl PartialEq for Guard {
    fn eq(&self, other: &Guard) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Guard {}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// While this lives, a guard is out on the thread that took it out.
#[must_use = "the guard is back when this is dropped"]
#[derive(Debug)]
pub struct Out(PhantomData<*const ()>);

/// Takes a guard out on this thread, until what is returned is dropped. At most one is out on a thread.
pub fn take_out(guard: &'static Guard) -> Out {
    let before = OUT.replace(guard.address());
    assert_eq!(before, NONE, "{guard:?} is taken out while another guard is out on this thread");
    Out(PhantomData)
}

impl Drop for Out {
    fn drop(&mut self) {
        OUT.set(NONE);
    }
}

/// While this lives, a guard is out in the whole process.
#[must_use = "the guard is back when this is dropped"]
#[derive(Debug)]
pub struct OutEverywhere(());

/// Takes a guard out in the whole process, for what works in several threads, until what is returned is dropped. At most one
/// is out in a process.
pub fn take_out_everywhere(guard: &'static Guard) -> OutEverywhere {
    let before = OUT_EVERYWHERE.swap(guard.address(), Ordering::SeqCst);
    assert_eq!(before, NONE, "{guard:?} is taken out while another guard is out everywhere");
    OutEverywhere(())
}

impl Drop for OutEverywhere {
    fn drop(&mut self) {
        OUT_EVERYWHERE.store(NONE, Ordering::SeqCst);
    }
}

/// `guard!(Name, what is right)` is what is right. A test that takes the guard out gets what `canaries.rs` of this crate does
/// instead, which may need something: `guard!(Name(given), what is right)`, and may fail: `guard!(Name(given)?, what is right)`.
/// Where it is right to do nothing: `guard!(Name(given));`.
#[macro_export]
#[expect(clippy::crate_in_macro_def, reason = "the guards of whoever uses it")]
macro_rules! guard {
    ($guard:ident, $right:expr $(,)?) => { $crate::guard!($guard(), $right) };
    ($guard:ident($($given:expr),* $(,)?)) => { $crate::guard!($guard($($given),*), ()) };
    ($guard:ident($($given:expr),* $(,)?)?) => { $crate::guard!($guard($($given),*)?, ()) };
    ($guard:ident($($given:expr),* $(,)?), $right:expr $(,)?) => {{
        #[cfg(feature = "canaries")]
        {
            match crate::canaries::$guard.is_out() {
                true => crate::canaries::without::$guard($($given),*),
                false => $right,
            }
        }
        #[cfg(not(feature = "canaries"))]
        {
            if false {
                $(let _ = &$given;)*
            }
            $right
        }
    }};
    ($guard:ident($($given:expr),* $(,)?)?, $right:expr $(,)?) => {{
        #[cfg(feature = "canaries")]
        {
            match crate::canaries::$guard.is_out() {
                true => crate::canaries::without::$guard($($given),*)?,
                false => $right,
            }
        }
        #[cfg(not(feature = "canaries"))]
        {
            if false {
                $(let _ = &$given;)*
            }
            $right
        }
    }};
}

/// Declares the guards of a crate, in its `canaries.rs`: for each a sentence that says what happens without it, its number in
/// docs/internals/hazards.md if it has one, and what is done without it. The guard itself is a static of that name.
#[macro_export]
macro_rules! guards {
    ($(
        #[doc = $first:literal]
        $(#[doc = $next:literal])*
        $(#[hazard($hazard:literal)])?
        fn $guard:ident $(<$generic:ident: $bound:path>)? ($($given:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    )*) => {
        #[cfg(not(debug_assertions))]
        compile_error!("`canaries` is for tests: build with debug assertions, as `--profile canary` does");

        $(
            #[doc = $first]
            $(#[doc = $next])*
            #[allow(non_upper_case_globals, reason = "a test takes it out by its name")]
            pub static $guard: $crate::Guard = $crate::Guard::declared(
                stringify!($guard),
                concat!($first, $($next,)*),
                [$(Some($hazard),)? None][0],
            );
        )*

        /// What is done without each guard.
        pub(crate) mod without {
            #[allow(unused_imports, reason = "of a list whose guards need nothing")]
            use super::*;

            $(
                #[allow(non_snake_case, reason = "named as its guard")]
                pub(crate) fn $guard $(<$generic: $bound>)? ($($given: $type),*) $(-> $result)? $body
            )*
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE: Guard = Guard::declared("One", " The first.", Some(1));
    static OTHER: Guard = Guard::declared("Other", " The second.", None);

    /// What a second thread sees.
    fn is_out_elsewhere(guard: &'static Guard) -> bool {
        std::thread::spawn(|| guard.is_out()).join().expect("it does not panic")
    }

    #[test]
    fn a_guard_is_out_on_one_thread_until_it_is_back() {
        let out = take_out(&ONE);
        assert!(ONE.is_out() && !OTHER.is_out());
        assert!(!is_out_elsewhere(&ONE));
        drop(out);
        assert!(!ONE.is_out());
    }

    #[test]
    fn a_guard_is_out_everywhere_until_it_is_back() {
        let out = take_out_everywhere(&OTHER);
        assert!(OTHER.is_out() && is_out_elsewhere(&OTHER));
        drop(out);
        assert!(!OTHER.is_out() && !is_out_elsewhere(&OTHER));
    }

    #[test]
    fn a_guard_is_back_when_what_it_guards_panics() {
        let panics = || {
            let _out = take_out(&ONE);
            panic!("without it");
        };
        std::panic::catch_unwind(panics).expect_err("it panics");
        assert!(!ONE.is_out());
    }
}
