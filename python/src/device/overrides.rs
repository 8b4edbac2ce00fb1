//! A profile, perhaps with some of its fields changed.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use tantalum_device::Profile;
use toml::{Table, Value};

/// The largest number in a profile: as nanoseconds three days, as bytes 256 TiB. Sums of such times never overflow.
const MOST: i64 = 1 << 48;

fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The profile of that name or in that file, with another capacity and other fields.
pub fn profile(
    name: &str,
    capacity_bytes: Option<u64>,
    overrides: Option<&Bound<'_, PyAny>>,
) -> PyResult<Profile> {
    let mut profile = Profile::load(name).map_err(wrong)?;
    // the profile's own capacity may be wrong with other fields
    profile.capacity_bytes = capacity_bytes.unwrap_or(profile.capacity_bytes);
    if profile.capacity_bytes > MOST as u64 {
        profile.validate().map_err(wrong)?;
    }
    if let Some(overrides) = overrides {
        let mut table: Table = profile.to_toml().parse().map_err(wrong)?;
        // any mapping will do
        let fields = PyDict::new(overrides.py());
        fields.update(overrides.cast()?)?;
        for (key, value) in fields {
            let key: String = key.extract()?;
            let value = if value.is_none() { None } else { Some(toml_of(&key, &value)?) };
            set(&mut table, &key, &key, value)?;
        }
        let text = toml::to_string(&table).map_err(wrong)?;
        profile = Profile::from_toml(&text, &format!("{name} with overrides")).map_err(wrong)?;
    }
    // checked without the capacity, which the drive checks with a better message
    let table: Table = Profile { capacity_bytes: 0, ..profile.clone() }.to_toml().parse().map_err(wrong)?;
    table.iter().try_for_each(|(key, value)| check_size(key, value))?;
    Ok(profile)
}

fn check_size(key: &str, value: &Value) -> PyResult<()> {
    match value {
        Value::Integer(number) if *number > MOST => {
            Err(wrong(format!("{key} is {number}; a number of a profile can be at most 2**48")))
        }
        Value::Table(inner) => {
            inner.iter().try_for_each(|(field, value)| check_size(&format!("{key}.{field}"), value))
        }
        _ => Ok(()),
    }
}

fn toml_of(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_instance_of::<PyBool>() {
        return value.extract().map(Value::Boolean);
    }
    if let Ok(text) = value.extract() {
        return Ok(Value::String(text));
    }
    if let Ok(whole) = value.extract() {
        return Ok(Value::Integer(whole));
    }
    value.extract().map(Value::Float).map_err(|_| {
        wrong(format!("{key} is {value}: use a number, a text, True or False, or None to leave it out"))
    })
}

/// Changes a field such as `flash.read_ns`, or removes it. Parsing the profile decides whether such a field exists.
fn set(table: &mut Table, rest: &str, key: &str, value: Option<Value>) -> PyResult<()> {
    let Some((section, field)) = rest.split_once('.') else {
        let Some(value) = value else {
            table.remove(rest);
            return Ok(());
        };
        // an integer is fine where the profile has a float
        let is_float = table.get(rest).is_some_and(Value::is_float);
        let whole = value.as_integer().filter(|_| is_float);
        table.insert(rest.to_owned(), whole.map_or(value, |whole| Value::Float(whole as f64)));
        return Ok(());
    };
    match table.entry(section).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => set(inner, field, key, value),
        _ => Err(wrong(format!("{section} is not a section of a profile, so {key} cannot be set"))),
    }
}
