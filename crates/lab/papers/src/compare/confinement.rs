//! Keeps the user's SQL on the drive.
//!
//! A connection of an experiment uses the VFS of its drive, and so do the databases it attaches: `ATTACH 'other.db'`
//! creates a file on the drive, whatever is in the folder from which the program was started. An authorizer refuses
//! what would bypass this, and what the experiment itself decides.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Functions of shells and extensions that access the host.
const HOST_FUNCTIONS: [&str; 5] = ["load_extension", "readfile", "writefile", "edit", "fsdir"];

/// Why something was last refused: SQLite itself reports only that it was refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal(Arc<State>);

#[derive(Debug, Default)]
struct State {
    reason: Mutex<Option<String>>,
    /// Whether the experiment has set up the connection, and the user's statements follow.
    is_set_up: AtomicBool,
}

impl Refusal {
    /// The reason, if there was a refusal since the last call.
    pub fn take(&self) -> Option<String> {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// From now on what the experiment has set is refused as well.
    pub fn is_set_up(&self) {
        self.0.is_set_up.store(true, Ordering::Relaxed);
    }
}

/// Confines a connection to its drive, from now on.
pub(crate) fn confine(connection: &mut Connection) -> rusqlite::Result<Refusal> {
    let refusal = Refusal::default();
    let told = refusal.clone();
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        match refused(&context.action, told.0.is_set_up.load(Ordering::Relaxed)) {
            None => Authorization::Allow,
            Some(reason) => {
                *told.0.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
                Authorization::Deny
            }
        }
    }))?;
    Ok(refusal)
}

/// Why an action is refused, before or after the experiment has set up the connection; `None` if it is not.
fn refused(action: &AuthAction<'_>, is_set_up: bool) -> Option<String> {
    match *action {
        AuthAction::Attach { filename } => wrong_place(filename),
        AuthAction::Unknown { code: rusqlite::ffi::SQLITE_ATTACH, .. } => {
            Some("ATTACH takes a quoted name here, not an expression, so that it can be checked".to_owned())
        }
        AuthAction::Pragma { pragma_name, pragma_value } => {
            wrong_pragma(pragma_name, pragma_value, is_set_up)
        }
        AuthAction::Function { function_name } => {
            HOST_FUNCTIONS.iter().any(|name| name.eq_ignore_ascii_case(function_name)).then(|| {
                format!("{function_name}() accesses files of the host, but statements work only on the drive")
            })
        }
        _ => None,
    }
}

fn wrong_pragma(name: &str, value: Option<&str>, is_set_up: bool) -> Option<String> {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match value {
        Some(value) if is("journal_mode") => {
            Some(format!("journal_mode cannot be set to {value}: each mode of the comparison sets its own"))
        }
        Some(value) if is("synchronous") && is_set_up => Some(format!(
            "synchronous cannot be set to {value} here: leave it out, and use --synchronous, which sets it for all modes"
        )),
        _ if is("temp_store_directory") || is("data_store_directory") => {
            Some(format!("{name} names a folder of the host, but statements work only on the drive"))
        }
        _ => None,
    }
}

/// Why a database cannot be attached, or written by `VACUUM INTO`; `None` if it can. Names refer to files on the drive.
fn wrong_place(name: &str) -> Option<String> {
    let path = match name.strip_prefix("file:") {
        None => name,
        Some(uri) => {
            let uri = uri.split('#').next().unwrap_or_default();
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            if let Some(parameter) = query.split('&').find(|parameter| chooses_vfs(parameter)) {
                return Some(format!(
                    "{name:?} has the parameter {parameter:?}: databases use the drive's own VFS here, so leave it out"
                ));
            }
            path
        }
    };
    let is_elsewhere = path.strip_prefix("./").unwrap_or(path).contains('/') || path.contains('%');
    is_elsewhere.then(|| {
        format!("{name:?} is a path in the host's folders: statements work on the drive, where a name has no / and no %")
    })
}

/// Whether a parameter of a URI names a VFS. A parameter whose name contains escapes may do so.
fn chooses_vfs(parameter: &str) -> bool {
    let key = parameter.split('=').next().unwrap_or_default();
    key.eq_ignore_ascii_case("vfs") || key.contains('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_drive_are_allowed_and_others_are_not() {
        for name in
            ["", ":memory:", "other.db", "./other.db", "file:other.db", "file:m?mode=memory&cache=shared"]
        {
            assert_eq!(wrong_place(name), None, "{name}");
        }
        for name in ["/tmp/other.db", "../other.db", "file:/tmp/other.db", "file:///tmp/a", "file:%2ftmp%2fa"]
        {
            assert!(wrong_place(name).unwrap().contains("no /"), "{name}");
        }
        for name in ["file:a?vfs=unix", "file:a?mode=ro&vfs=unix", "file:a?%76fs=unix", "file:a?vfs=unix#b"] {
            assert!(wrong_place(name).unwrap().contains("own VFS"), "{name}");
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        let mut connection = Connection::open_in_memory().unwrap();
        let refusal = confine(&mut connection).unwrap();
        for (sql, reason) in [
            ("ATTACH '/tmp/tantalum-must-not-be.db' AS other", "host's folders"),
            ("ATTACH '/tmp/tantalum-' || 'must-not-be.db' AS other", "not an expression"),
            ("VACUUM INTO '/tmp/tantalum-must-not-be.db'", "host's folders"),
            ("VACUUM INTO '/tmp/tantalum-' || 'must-not-be.db'", "host's folders"),
            ("PRAGMA journal_mode = WAL", "journal_mode cannot be set to WAL"),
            ("PRAGMA main.JOURNAL_MODE(off)", "journal_mode cannot be set to off"),
            ("PRAGMA temp_store_directory = '/tmp'", "folder of the host"),
            ("SELECT load_extension('/nonexistent')", "accesses files of the host"),
        ] {
            connection.execute_batch(sql).expect_err(sql);
            let said = refusal.take().unwrap_or_else(|| panic!("{sql}: no reason"));
            assert!(said.contains(reason), "{sql}: {said}");
        }
        assert!(!std::path::Path::new("/tmp/tantalum-must-not-be.db").exists());
        connection.execute_batch("PRAGMA synchronous = NORMAL").unwrap();
        refusal.is_set_up();
        for sql in ["PRAGMA synchronous = OFF", "PRAGMA main.Synchronous(1)"] {
            connection.execute_batch(sql).expect_err(sql);
            assert!(refusal.take().unwrap().contains("--synchronous"), "{sql}");
        }
        let level: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
        assert_eq!(level, 1);
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "memory", "a query must not change the mode");
        connection.execute_batch("VACUUM; ATTACH ':memory:' AS more; CREATE TABLE more.t(a)").unwrap();
    }
}
