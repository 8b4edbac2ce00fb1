//! Diffie-Hellman groups: the finite fields of RFC 7919, with generator 2.

use std::sync::LazyLock;

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};

/// Bits of a private exponent: at least twice the strength of the largest group.
const EXPONENT_BITS: u32 = 512;

/// A group (`DHgID`; Base, figure 738). Larger ones exist; they would let an unauthenticated host keep a core busy for long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// No group: the challenges are used directly.
    Null,
    /// ffdhe2048.
    Ffdhe2048,
    /// ffdhe3072.
    Ffdhe3072,
    /// ffdhe4096.
    Ffdhe4096,
}

/// A field: its modulus, prepared for multiplication.
struct Field {
    modulus: BoxedUint,
    params: BoxedMontyParams,
}

static FFDHE2048: LazyLock<Field> = LazyLock::new(|| Field::new(2048, 560_316));
static FFDHE3072: LazyLock<Field> = LazyLock::new(|| Field::new(3072, 2_625_351));
static FFDHE4096: LazyLock<Field> = LazyLock::new(|| Field::new(4096, 5_736_041));

/// One side's part of an agreement: what it keeps, and what it sends to the other side.
#[derive(Clone)]
pub struct Share {
    group: Group,
    exponent: BoxedUint,
    /// The value sent to the other side, big-endian and as long as the modulus.
    pub public: Vec<u8>,
}

impl Group {
    /// All of them, the preferred ones first.
    pub const ALL: [Group; 4] = [Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096, Group::Null];

    /// The group with this number.
    pub fn of(id: u8) -> Option<Group> {
        Group::ALL.into_iter().find(|group| group.id() == id)
    }

    /// The identifier of the group on the wire (`DHGID`).
    pub fn id(self) -> u8 {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 1,
            Group::Ffdhe3072 => 2,
            Group::Ffdhe4096 => 3,
        }
    }

    fn field(self) -> Option<&'static Field> {
        match self {
            Group::Null => None,
            Group::Ffdhe2048 => Some(&FFDHE2048),
            Group::Ffdhe3072 => Some(&FFDHE3072),
            Group::Ffdhe4096 => Some(&FFDHE4096),
        }
    }

    /// A share with an exponent made of these random bytes; `None` in the null group.
    pub fn share(self, random: &[u8; EXPONENT_BITS as usize / 8]) -> Option<Share> {
        let field = self.field()?;
        let exponent = BoxedUint::from_be_slice_truncated(random, EXPONENT_BITS);
        let two = BoxedUint::from_be_slice_truncated(&[2], field.modulus.bits_precision());
        let public = field.power(two, &exponent);
        let bytes = field.modulus.bits_precision() as usize / 8;
        assert_eq!(public.len(), bytes, "a share of {self:?} is as long as the modulus");
        Some(Share { group: self, public, exponent })
    }
}

impl Share {
    /// The key that only the two sides know, from what the other side sent. `None` if that is not a valid share: with 0,
    /// 1, the modulus less one, or more, others would know the key too.
    pub fn agree(&self, other: &[u8]) -> Option<Vec<u8>> {
        let field = self.group.field()?;
        if other.len() != self.public.len() {
            return None;
        }
        let other = BoxedUint::from_be_slice_truncated(other, field.modulus.bits_precision());
        let one = BoxedUint::from_be_slice_truncated(&[1], field.modulus.bits_precision());
        let last = field.modulus.wrapping_sub(&one);
        (other > one && other < last).then(|| field.power(other, &self.exponent))
    }
}

impl Field {
    fn new(bits: usize, above: u32) -> Field {
        let modulus = BoxedUint::from_be_slice_truncated(&modulus(bits, above), bits as u32);
        let odd = Odd::new(modulus.clone()).expect("its last bits are ones");
        Field { modulus, params: BoxedMontyParams::new_vartime(odd) }
    }

    fn power(&self, base: BoxedUint, exponent: &BoxedUint) -> Vec<u8> {
        let power = BoxedMontyForm::new(base, &self.params).pow_bounded_exp(exponent, EXPONENT_BITS);
        power.retrieve().to_be_bytes().to_vec()
    }
}

/// The prime of a field (RFC 7919, appendix A): 64 ones, the first digits of Euler's number plus a small number, 64 ones.
/// Big-endian.
fn modulus(bits: usize, above: u32) -> Vec<u8> {
    let digits = bits / 32 - 4;
    // a quarter of Euler's number as a binary fraction: the sum of 1 / k!, with a few spare digits
    let mut term = vec![0_u32; digits + 4];
    term[0] = 1 << 30;
    let mut sum = vec![0_u32; digits + 4];
    let mut k = 1;
    while term.iter().any(|&digit| digit != 0) {
        let mut carry = 0;
        for (digit, &more) in sum.iter_mut().zip(&term).rev() {
            let total = u64::from(*digit) + u64::from(more) + carry;
            (*digit, carry) = (total as u32, total >> 32);
        }
        let mut rest = 0;
        for digit in &mut term {
            let total = rest << 32 | u64::from(*digit);
            (*digit, rest) = ((total / k) as u32, total % k);
        }
        k += 1;
    }
    sum.truncate(digits);
    // the one that the standard subtracts from the whole turns the last 64 bits to ones
    let mut carry = u64::from(above) - 1;
    for digit in sum.iter_mut().rev() {
        let total = u64::from(*digit) + carry;
        (*digit, carry) = (total as u32, total >> 32);
    }
    let ones = [0xff; 8];
    let middle = sum.into_iter().flat_map(u32::to_be_bytes);
    let modulus: Vec<u8> = ones.into_iter().chain(middle).chain(ones).collect();
    assert_eq!(modulus.len(), bits / 8, "the modulus of a field of {bits} bits has another length");
    modulus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_those_of_the_rfc() {
        let ends = [
            (2048, 560_316, 0x886b_4238_6128_5c97_u64),
            (3072, 2_625_351, 0x25e4_1d2b_66c6_2e37),
            (4096, 5_736_041, 0xc68a_007e_5e65_5f6a),
        ];
        for (bits, above, end) in ends {
            let modulus = modulus(bits, above);
            let words: Vec<u64> =
                modulus.chunks(8).map(|word| u64::from_be_bytes(word.try_into().unwrap())).collect();
            assert_eq!(words.len(), bits / 64);
            assert_eq!(words[..3], [u64::MAX, 0xadf8_5458_a2bb_4a9a, 0xafdc_5620_273d_3cf1]);
            assert_eq!(words[words.len() - 2..], [end, u64::MAX]);
        }
    }

    #[test]
    fn both_sides_come_to_one_key() {
        for group in [Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096] {
            let (host, controller) = (group.share(&[3; 64]).unwrap(), group.share(&[0x5a; 64]).unwrap());
            let key = host.agree(&controller.public).unwrap();
            assert_eq!(key, controller.agree(&host.public).unwrap());
            assert_ne!(key, host.agree(&host.public).unwrap());
        }
        assert!(Group::Null.share(&[1; 64]).is_none());
    }

    #[test]
    fn a_share_that_fixes_the_key_is_refused() {
        let share = Group::Ffdhe2048.share(&[7; 64]).unwrap();
        let modulus = modulus(2048, 560_316);
        let mut last = modulus.clone();
        last[255] -= 1;
        let number = |last: u8| [vec![0; 255], vec![last]].concat();
        for bad in [number(0), number(1), last, modulus, vec![0xff; 256], vec![2; 255], Vec::new()] {
            assert!(share.agree(&bad).is_none());
        }
        assert!(share.agree(&number(2)).is_some());
    }
}
