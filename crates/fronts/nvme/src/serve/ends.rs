//! Which ends of programs are reported.

/// Maximum number of program ends that are reported: users who may install programs could otherwise fill a log.
pub const ENDS: usize = 1000;

/// How many programs have ended.
#[derive(Default)]
pub(super) struct Ends(usize);

impl Ends {
    /// A program has ended, as `text` says.
    pub fn report(&mut self, text: &str, tell: impl FnOnce(&str)) {
        self.0 += 1;
        match self.0 {
            ..ENDS => tell(text),
            ENDS => tell(&format!("{text}; further ends are not shown")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_end_that_is_reported_says_so() {
        let (mut ends, mut reported) = (Ends::default(), Vec::new());
        for number in 0..2 * ENDS {
            ends.report(&number.to_string(), |text| reported.push(text.to_owned()));
        }
        assert_eq!((reported.len(), &reported[ENDS - 2][..]), (ENDS, "998"));
        assert_eq!(reported[ENDS - 1], "999; further ends are not shown");
    }
}
