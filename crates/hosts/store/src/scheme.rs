//! Ways to make transactions atomic and durable: three schemes to compare.

/// How transactions become atomic and durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// ARIES over Base-IO, through the kernel.
    AriesBase,
    /// ARIES over Direct-IO, from the process.
    AriesDirect,
    /// MARS over Atomic-Writes; pages are read with Direct-IO.
    Mars,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 3] = [Scheme::AriesBase, Scheme::AriesDirect, Scheme::Mars];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::AriesBase => "ARIES, Base-IO",
            Scheme::AriesDirect => "ARIES, Direct-IO",
            Scheme::Mars => "MARS, Atomic-Writes",
        }
    }
}
