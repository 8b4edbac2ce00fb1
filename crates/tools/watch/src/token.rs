//! The part of the address that nobody can guess.

use std::fmt;
use std::hint::black_box;
use std::io;

/// Random bytes of a token.
const BYTES: usize = 16;

/// A random token. Its text is secret, and not among what `Debug` shows.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one.
    pub fn random() -> io::Result<Token> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The token as text, as in the address.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. The time taken does not depend on how much of it is right.
    pub fn is(&self, text: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), text.as_bytes());
        if ours.len() != theirs.len() {
            return false;
        }
        let differences =
            ours.iter().zip(theirs).fold(0, |differences, (a, b)| black_box(differences | (a ^ b)));
        differences == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_right() {
        let token = Token::random().unwrap();
        let text = token.text().to_owned();
        assert_eq!(text.len(), 2 * BYTES);
        assert!(token.is(&text));
        for at in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] ^= 1;
            assert!(!token.is(std::str::from_utf8(&wrong).unwrap()), "character {at} does not matter");
        }
        for wrong in
            ["", &text[1..], &format!("{text}0"), &text.to_uppercase().replace(char::is_numeric, "x")]
        {
            assert!(!token.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn two_tokens_differ_and_neither_is_shown() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_ne!(one.text(), other.text());
        assert!(!format!("{one:?}").contains(one.text()));
    }
}
