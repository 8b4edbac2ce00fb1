//! What statements can observe besides their database: random numbers and the time. Both are determined by the trial,
//! so that the same statements do the same in every mode, in every run.
//!
//! - `random()` and `randomblob()` come from a seeded generator.
//! - The time, with `now` and in `CURRENT_TIMESTAMP`, begins with the year 2000 and is a millisecond later in each statement.
//!   The drive's own time would not do: it differs between the compared modes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// Milliseconds from the beginning of 1970 to that of 2000.
const BEGAN_MS: u64 = 946_684_800_000;

/// The largest blob that SQLite creates.
const MOST_BYTES: i64 = 1_000_000_000;

/// Functions of the time, and which of their arguments, from 0, is the first that is a time.
const TIMES: [(&str, usize); 7] = [
    ("date", 0),
    ("time", 0),
    ("datetime", 0),
    ("julianday", 0),
    ("unixepoch", 0),
    ("strftime", 1),
    ("timediff", 0),
];

/// Keywords for the time, which are functions without arguments, and what they are equal to.
const KEY_WORDS: [(&str, &str); 3] =
    [("current_date", "date"), ("current_time", "time"), ("current_timestamp", "datetime")];

/// Supplies the time to statements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    /// The next statement begins.
    pub fn next_statement(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Seconds since 1970.
    fn now(&self) -> f64 {
        (BEGAN_MS + self.0.load(Ordering::Relaxed)) as f64 / 1000.0
    }
}

/// Sets the trial's random numbers and time on a connection.
pub(crate) fn make_deterministic(connection: &Connection, seed: u64) -> rusqlite::Result<Clock> {
    let generator = Arc::new(Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x7261_6e64)));
    let other = Arc::clone(&generator);
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("random", 0, flags, move |_| Ok(locked(&generator).random::<i64>()))?;
    connection.create_scalar_function("randomblob", 1, flags, move |context| {
        let bytes = match context.get::<Value>(0)? {
            Value::Integer(bytes) => bytes,
            Value::Real(bytes) => bytes as i64,
            Value::Text(text) => text.trim().parse().unwrap_or(0),
            Value::Null | Value::Blob(_) => 0,
        };
        if bytes > MOST_BYTES {
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_TOOBIG),
                None,
            ));
        }
        let mut blob = vec![0; bytes.max(1) as usize];
        locked(&other).fill_bytes(&mut blob);
        Ok(blob)
    })?;
    let clock = Clock::default();
    // Within a statement the time stands still, as in SQLite, so these functions may be used in indexes.
    let flags = flags | FunctionFlags::SQLITE_DETERMINISTIC;
    for (name, first_time) in TIMES {
        let function = TimeFunction::new(name, first_time, &clock)?;
        connection.create_scalar_function(name, -1, flags, move |context| function.call(context))?;
    }
    for (name, equal) in KEY_WORDS {
        let function = TimeFunction::new(equal, 0, &clock)?;
        connection.create_scalar_function(name, 0, flags, move |context| function.call(context))?;
    }
    Ok(clock)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of SQLite's functions, supplied with the time.
struct TimeFunction {
    name: &'static str,
    first_time: usize,
    clock: Clock,
    /// A connection on which SQLite's own function is called.
    original: Mutex<Connection>,
}

impl TimeFunction {
    fn new(name: &'static str, first_time: usize, clock: &Clock) -> rusqlite::Result<TimeFunction> {
        Ok(TimeFunction {
            name,
            first_time,
            clock: clock.clone(),
            original: Mutex::new(Connection::open_in_memory()?),
        })
    }

    fn call(&self, context: &Context<'_>) -> rusqlite::Result<Value> {
        let given = (0..context.len()).map(|at| context.get(at)).collect::<rusqlite::Result<Vec<Value>>>()?;
        let arguments = self.with_time(given);
        let places = vec!["?"; arguments.len()].join(", ");
        let original = locked(&self.original);
        let mut statement = original.prepare_cached(&format!("SELECT {}({places})", self.name))?;
        statement.query_row(params_from_iter(arguments), |row| row.get(0))
    }

    /// The arguments, with a time in place of the present.
    fn with_time(&self, mut arguments: Vec<Value>) -> Vec<Value> {
        let text = |value: &Value, words: &[&str]| match value {
            Value::Text(text) => words.iter().any(|word| text.eq_ignore_ascii_case(word)),
            _ => false,
        };
        // A modifier in the place of the time modifies the present.
        let is_left_out = match arguments.get(self.first_time) {
            None => arguments.len() == self.first_time,
            Some(value) => text(value, &["subsec", "subsecond"]),
        };
        let mut now = vec![Value::Real(self.clock.now()), Value::Text("unixepoch".to_owned())];
        if self.name == "timediff" {
            // It takes two times and no modifiers.
            now = vec![Value::Real(2_440_587.5 + self.clock.now() / 86_400.0)];
        }
        if is_left_out && self.name != "timediff" {
            arguments.splice(self.first_time..self.first_time, now);
            return arguments;
        }
        arguments
            .into_iter()
            .flat_map(|value| if text(&value, &["now"]) { now.clone() } else { vec![value] })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deterministic(seed: u64) -> (Connection, Clock) {
        let connection = Connection::open_in_memory().unwrap();
        let clock = make_deterministic(&connection, seed).unwrap();
        (connection, clock)
    }

    fn text(connection: &Connection, expression: &str) -> String {
        let sql = format!("SELECT CAST({expression} AS TEXT)");
        connection
            .query_row(&sql, [], |row| row.get(0))
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    #[test]
    fn random_numbers_follow_the_seed() {
        let drawn = |seed| {
            let (connection, _) = deterministic(seed);
            [
                text(&connection, "random()"),
                text(&connection, "random()"),
                text(&connection, "hex(randomblob(9))"),
            ]
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert_ne!(drawn(1)[0], drawn(1)[1]);
        assert_eq!(drawn(1)[2].len(), 18);
        let (connection, _) = deterministic(1);
        assert_eq!(text(&connection, "length(randomblob(0))"), "1", "as SQLite has it");
        connection.query_row("SELECT randomblob(2000000000)", [], |_| Ok(())).unwrap_err();
    }

    #[test]
    fn the_time_is_that_of_the_statement() {
        let (connection, clock) = deterministic(1);
        clock.next_statement();
        for (expression, expected) in [
            ("datetime('now')", "2000-01-01 00:00:00"),
            ("datetime()", "2000-01-01 00:00:00"),
            ("datetime('NOW', '+1 day')", "2000-01-02 00:00:00"),
            ("datetime('subsec')", "2000-01-01 00:00:00.001"),
            ("date()", "2000-01-01"),
            ("time('now', 'subsec')", "00:00:00.001"),
            ("julianday('now') - 2451544.5 < 0.001", "1"),
            ("unixepoch()", "946684800"),
            ("strftime('%Y-%m')", "2000-01"),
            ("strftime('%s', 'now')", "946684800"),
            ("timediff('now', '1999-12-31')", "+0000-00-01 00:00:00.001"),
            ("CURRENT_TIMESTAMP", "2000-01-01 00:00:00"),
            ("CURRENT_DATE", "2000-01-01"),
            ("CURRENT_TIME", "00:00:00"),
            ("date('2024-02-29', '+1 year')", "2025-03-01"),
            ("strftime('%W', '2024-02-29')", "09"),
            ("coalesce(date(NULL), 'none')", "none"),
        ] {
            assert_eq!(text(&connection, expression), expected, "{expression}");
        }
        (0..1000).for_each(|_| clock.next_statement());
        assert_eq!(text(&connection, "datetime('now')"), "2000-01-01 00:00:01");
    }

    #[test]
    fn a_schema_may_use_them_where_it_may_use_sqlites_own() {
        let (connection, _) = deterministic(1);
        connection
            .execute_batch(
                "CREATE TABLE t(a, at TEXT DEFAULT CURRENT_TIMESTAMP, day AS (date(at)), CHECK (date(at) > '1999'));
                 CREATE INDEX days ON t(date(at));
                 INSERT INTO t(a) VALUES (random());",
            )
            .unwrap();
        assert_eq!(text(&connection, "(SELECT day FROM t WHERE date(at) = '2000-01-01')"), "2000-01-01");
    }
}
