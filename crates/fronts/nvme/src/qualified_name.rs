//! NVMe qualified names of hosts and subsystems (Base, section 4.5).

use crate::wire::fabrics::DISCOVERY_NQN;

/// Maximum length of a name in bytes.
const NAME_BYTES: usize = 223;

/// What names that are made of a UUID begin with.
pub const OF_UUID: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// Whether a text is an NVMe qualified name: `nqn.`, the year and month since which a domain belongs to who gives the name,
/// the domain in reverse, a colon and a name in that domain; or a UUID behind [`OF_UUID`]; or that of discovery.
pub fn is_qualified_name(name: &str) -> bool {
    name.len() <= NAME_BYTES
        && match name.strip_prefix(OF_UUID) {
            Some(uuid) => is_uuid(uuid),
            None => name == DISCOVERY_NQN || is_of_domain(name),
        }
}

/// Why a text was refused as a name.
pub fn not_qualified(name: &str) -> String {
    format!(
        "{name:?} is not an NVMe qualified name: one is like nqn.2014-08.org.example:name, and has at most {NAME_BYTES} bytes"
    )
}

fn is_of_domain(name: &str) -> bool {
    let parts = || {
        let (date, rest) = name.strip_prefix("nqn.")?.split_once('.')?;
        let (domain, own) = rest.split_once(':')?;
        Some((date, domain, own))
    };
    parts().is_some_and(|(date, domain, own)| is_date(date) && is_domain(domain) && !own.is_empty())
}

/// A year and a month: `yyyy-mm`.
fn is_date(text: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('-') {
        Some((year, month)) => {
            let is_month = month.len() == 2 && month.parse().is_ok_and(|month| (1..=12).contains(&month));
            year.len() == 4 && is_number(year) && is_number(month) && is_month
        }
        None => false,
    }
}

fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.split('.').all(is_label)
}

fn is_uuid(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && text.split('-').all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_form_of_the_standard() {
        let longest = format!("nqn.2014-08.org.example:{}", "x".repeat(223 - 24));
        for name in [
            DISCOVERY_NQN,
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00A0C91E6BF6",
            "nqn.2014-08.com.example:nvme.host.sys.xyz",
            "nqn.2016-06.io.spdk:cnode1",
            "nqn.2014-08.a-b:\u{e4}",
            &longest,
        ] {
            assert!(is_qualified_name(name), "{name}");
        }
        for name in [
            "",
            "nqn.",
            "nqn.host",
            "host",
            "iqn.2014-08.org.example:x",
            "nqn.2014-13.org.example:x",
            "nqn.2014-00.org.example:x",
            "nqn.2014-+8.org.example:x",
            "nqn.14-08.org.example:x",
            "nqn.2014-08.org.example",
            "nqn.2014-08.org.example:",
            "nqn.2014-08.org..example:x",
            "nqn.2014-08.:x",
            "nqn.2014-08.org.nvmexpress:uuid:",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bfg",
            &format!("{longest}x"),
        ] {
            assert!(!is_qualified_name(name), "{name}");
        }
    }
}
