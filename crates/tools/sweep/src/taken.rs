//! The settings of a run as a grid has them, which are taken one after the other.

use std::str::FromStr;

use toml::Value as Toml;

use crate::error::SweepError;

/// Settings of which some have been taken; the rest are fields of the profile.
pub(crate) struct Taken<'a> {
    origin: &'a str,
    settings: toml::Table,
}

impl<'a> Taken<'a> {
    /// None has been taken yet; `origin` names the grid in errors.
    pub fn new(origin: &'a str, settings: toml::Table) -> Taken<'a> {
        Taken { origin, settings }
    }

    /// What has not been taken.
    pub fn rest(self) -> toml::Table {
        self.settings
    }

    /// The error for a value that cannot be used.
    pub fn wrong(&self, key: &str, value: impl ToString, expected: impl Into<String>) -> SweepError {
        let (origin, key) = (self.origin.to_owned(), key.to_owned());
        SweepError::Value { origin, key, value: value.to_string(), expected: expected.into() }
    }

    /// A text.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, SweepError> {
        match self.settings.remove(key) {
            None => Ok(None),
            Some(Toml::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, other, "it must be a text in quotes")),
        }
    }

    /// A list of texts; empty if it is not set.
    pub fn texts(&mut self, key: &str) -> Result<Vec<String>, SweepError> {
        let Some(value) = self.settings.remove(key) else { return Ok(Vec::new()) };
        value.clone().try_into().map_err(|_| self.wrong(key, value, "it must be a list of texts in quotes"))
    }

    /// A text or number in a form of its own.
    pub fn parsed<T: FromStr<Err: ToString>>(&mut self, key: &str) -> Result<Option<T>, SweepError> {
        let Some(value) = self.settings.remove(key) else { return Ok(None) };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.parse().map(Some).map_err(|error: T::Err| self.wrong(key, value, error.to_string()))
    }

    /// Fails if a value has another form.
    pub fn check<T: FromStr<Err = String>>(&self, key: &str, value: &str) -> Result<(), SweepError> {
        value.parse::<T>().map(drop).map_err(|expected| self.wrong(key, value, expected))
    }

    /// A whole number in a range.
    pub fn number(&mut self, key: &str, least: u64, most: u64) -> Result<Option<u64>, SweepError> {
        let Some(value) = self.settings.remove(key) else { return Ok(None) };
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| {
            self.wrong(key, value, format!("it must be a whole number from {least} to {most}"))
        })
    }

    /// A number above 0.
    pub fn positive(&mut self, key: &str) -> Result<Option<f64>, SweepError> {
        let Some(value) = self.settings.remove(key) else { return Ok(None) };
        let number = value.as_float().or(value.as_integer().map(|whole| whole as f64));
        let number = number.filter(|number| number.is_finite() && *number > 0.0);
        number.map(Some).ok_or_else(|| self.wrong(key, value, "it must be a number above 0"))
    }
}
