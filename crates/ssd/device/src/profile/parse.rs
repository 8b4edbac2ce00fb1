//! Parses a profile's TOML text, with errors that name file, line and field.

use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::{InvalidField, Profile};

/// Why a profile could not be loaded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It is neither a built-in profile nor a file.
    #[error("no profile named {name:?}; use {known}, or the path of a TOML file")]
    Unknown {
        /// The requested name.
        name: String,
        /// The built-in ones.
        known: String,
    },
    /// The file cannot be read.
    #[error("profile {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: String,
    },
    /// The text is not TOML, or not a profile.
    #[error("profile {origin}, line {line}, {field}: {reason}")]
    Malformed {
        /// Where the text came from.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// The field, with its section.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A field has a value that no drive can have.
    #[error("profile {origin}, line {line}, {invalid}")]
    Invalid {
        /// Where the text came from.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// The field and its valid values.
        invalid: InvalidField,
    },
}

impl Profile {
    /// Parses and checks a profile. `origin` names the text in errors: a file's path or a built-in name.
    pub fn from_toml(text: &str, origin: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|error| malformed(text, origin, &error))?;
        profile.validate().map_err(|invalid| ProfileError::Invalid {
            origin: origin.to_owned(),
            line: line_of_field(text, invalid.field),
            invalid,
        })?;
        Ok(profile)
    }

    /// The profile as TOML, which [`Profile::from_toml`] can read; images store it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile has nothing that TOML cannot say")
    }
}

fn malformed(text: &str, origin: &str, error: &toml::de::Error) -> ProfileError {
    let at = error.span().map_or(0, |span| span.start);
    let message = error.message().trim().replace('\n', ", ");
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    let line = line_at(text, at);
    let field = match missing {
        Some(field) => qualified(section_at(text, line), field),
        None => field_at(text, line),
    };
    ProfileError::Malformed { origin: origin.to_owned(), line, field, reason: message }
}

/// The line number, from 1, of a byte of the text.
fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

/// The last section opened up to that line; empty before the first.
fn section_at(text: &str, line: usize) -> &str {
    let header = |line: &'_ str| line.trim().starts_with('[');
    let opened = text.lines().take(line).filter(|line| header(line)).last();
    opened.map_or("", |line| line.trim().trim_matches(['[', ']']))
}

/// The key on that line with its section, or the section, or the line itself if it is neither.
fn field_at(text: &str, line: usize) -> String {
    let content = text.lines().nth(line - 1).unwrap_or_default().trim();
    match content.split_once('=') {
        Some((key, _)) => qualified(section_at(text, line), key.trim()),
        None => content.to_owned(),
    }
}

fn qualified(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

/// The line of a field such as `flash.page_bytes`, in text that has already been parsed.
fn line_of_field(text: &str, field: &str) -> usize {
    let Ok(root) = DeTable::parse(text) else { return 1 };
    let mut table = root.get_ref();
    let mut at = 0;
    for part in field.split('.') {
        let Some((key, value)) = table.get_key_value(part) else { break };
        at = key.span().start;
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    line_at(text, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;

    /// A valid profile with one line replaced.
    fn with_line(old: &str, new: &str) -> String {
        let text = builtin()[0].1;
        assert!(text.contains(old), "{old} is not in the profile");
        text.replace(old, new)
    }

    fn error(text: &str) -> String {
        Profile::from_toml(text, "drive.toml").unwrap_err().to_string()
    }

    fn line_containing(text: &str, what: &str) -> String {
        format!("line {},", 1 + text.lines().position(|line| line.contains(what)).unwrap())
    }

    #[test]
    fn wrong_type_names_file_line_and_field() {
        let text = with_line("channels = 4", "channels = \"four\"");
        let error = error(&text);
        assert!(error.contains("profile drive.toml"), "{error}");
        assert!(error.contains(&line_containing(&text, "\"four\"")), "{error}");
        assert!(error.contains("flash.channels") && error.contains("expected u32"), "{error}");
    }

    #[test]
    fn unknown_field_names_line_and_the_known_ones() {
        let text = with_line("command_ns = 5_000", "comand_ns = 5_000");
        let error = error(&text);
        assert!(error.contains(&line_containing(&text, "comand_ns")), "{error}");
        assert!(error.contains("link.comand_ns") && error.contains("`command_ns`"), "{error}");
    }

    #[test]
    fn missing_field_names_its_section() {
        let text = with_line("page_bytes = 16384", "");
        let error = error(&text);
        assert!(error.contains(&line_containing(&text, "[flash]")), "{error}");
        assert!(error.contains("flash.page_bytes"), "{error}");
    }

    #[test]
    fn unknown_choice_lists_the_known_ones() {
        let error = error(&with_line("victim_policy = \"greedy\"", "victim_policy = \"lazy\""));
        assert!(error.contains("ftl.victim_policy") && error.contains("`cost-benefit`"), "{error}");
    }

    #[test]
    fn broken_syntax_names_the_line() {
        let text = with_line("erase_ns = 5_000_000", "erase_ns 5_000_000");
        let error = error(&text);
        assert!(error.contains(&line_containing(&text, "erase_ns 5")), "{error}");
    }

    #[test]
    fn impossible_value_names_line_field_and_what_would_be_right() {
        let text = with_line("page_bytes = 16384", "page_bytes = 5000");
        let error = error(&text);
        assert!(error.contains(&line_containing(&text, "page_bytes = 5000")), "{error}");
        assert!(error.contains("flash.page_bytes is 5000: it must be 4096, 8192 or 16384"), "{error}");
    }

    #[test]
    fn impossible_value_of_the_root_names_its_line() {
        let text = with_line("over_provisioning_percent = 7.0", "over_provisioning_percent = nan");
        let error = error(&text);
        assert!(error.contains(&line_containing(&text, "= nan")), "{error}");
        assert!(error.contains("over_provisioning_percent is NaN"), "{error}");
    }
}
