//! A panic of the drive is a finding, and does not end the test.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::stop::Stop;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

static HOOK: Once = Once::new();

/// Runs a function whose state is discarded if it panics. A panic is returned as a broken promise, and prints nothing.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if GUARDED.get() {
                MESSAGE.set(info.to_string().replace('\n', " "));
            } else {
                others(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(outer);
    result.unwrap_or_else(|_| Err(Stop::broken("panic", MESSAGE.take())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_back_with_its_message() {
        let stop = guarded::<()>(|| panic!("block {} is lost", 7)).unwrap_err();
        let Stop::Broken(broken) = stop else { panic!("{stop:?}") };
        assert_eq!(broken.promise, "panic");
        assert!(broken.detail.contains("block 7 is lost"), "{}", broken.detail);
    }
}
