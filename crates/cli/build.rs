//! Refuses to build the command with a SQLite in which the mode `atomic` would silently be `rollback`.

use std::env;

const VARIABLE: &str = "LIBSQLITE3_FLAGS";
const FLAG: &str = "SQLITE_ENABLE_BATCH_ATOMIC_WRITE";

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let flags = env::var(VARIABLE).unwrap_or_default();
    if !flags.contains(FLAG) {
        println!(
            "cargo::error=SQLite would be built without {FLAG}. The repository's .cargo/config.toml asks for it, and cargo reads \
             that file only in the repository's folders: run cargo there, or set {VARIABLE}=-D{FLAG}"
        );
    }
}
