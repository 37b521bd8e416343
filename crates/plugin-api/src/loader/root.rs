//! Checks the root of a plugin before anything of it is called: version, name, kind, and that no entry is null.

use super::{LoadCause, LoadError, error::version_line};
use crate::{ABI_MAJOR, NetTable, PluginKind, PluginRoot, PluginRootRef, VendorTable};
use abi_stable::prefix_type::{PrefixRef, PrefixTypeTrait};
use std::mem::offset_of;

const MAX_NAME: usize = 64;

/// Whether `root` keeps the rules of this ABI; the same for loaded and for linked-in plugins.
///
/// # Errors
/// [`LoadError`] that names the rule.
pub fn check_root(root: PluginRootRef) -> Result<(), LoadError> {
    let bad = |line: String| Err(LoadError::new(LoadCause::BadRoot, line));
    if root.abi_major() != ABI_MAJOR {
        let found = format!("{}.{}", root.abi_major(), root.abi_minor());
        return Err(LoadError::new(LoadCause::Version, version_line(&found)));
    }
    for (offset, field) in [
        (offset_of!(PluginRoot, name), "name"),
        (offset_of!(PluginRoot, version), "version"),
        (offset_of!(PluginRoot, build), "build"),
        (offset_of!(PluginRoot, probe), "probe"),
    ] {
        if word(root.0, offset / size_of::<usize>()) == 0 {
            return bad(format!("the entry `{field}` of its root is null"));
        }
    }
    let name = root.name();
    let name = match std::str::from_utf8(name.as_bytes()) {
        Ok(name) if !name.is_empty() && name.len() <= MAX_NAME => name,
        _ => return bad(format!("its name is not 1 to {MAX_NAME} bytes of text")),
    };
    if !name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        return bad(format!(
            "its name {name:?} has characters other than a-z, 0-9 and '-'"
        ));
    }
    if std::str::from_utf8(root.version().as_bytes()).is_err()
        || std::str::from_utf8(root.build().as_bytes()).is_err()
    {
        return bad("its version or build is no UTF-8 text".to_owned());
    }
    let (kind, vendor, net) = (root.kind(), root.vendor().into_option(), root.net().into_option());
    if !kind.contains(PluginKind::VENDOR) && !kind.contains(PluginKind::NET) {
        return bad(format!(
            "it is of kind {}, and this core knows only vendor (1) and net (2)",
            kind.0
        ));
    }
    for (bit, present, what) in [
        (PluginKind::VENDOR, vendor.is_some(), "vendor"),
        (PluginKind::NET, net.is_some(), "net"),
    ] {
        if kind.contains(bit) != present {
            let (says, has) = if present {
                ("does not say", "has")
            } else {
                ("says", "lacks")
            };
            return bad(format!("its kind {says} {what}, but it {has} the {what} table"));
        }
    }
    if let Some(entry) = vendor.and_then(|table| null_entry::<VendorTable>(table.0)) {
        return bad(format!("the entry `{entry}` of its vendor table is null"));
    }
    if let Some(entry) = net.and_then(|table| null_entry::<NetTable>(table.0)) {
        return bad(format!("the entry `{entry}` of its net table is null"));
    }
    Ok(())
}

/// The name of the first null among the functions of a table, of those that every version has.
fn null_entry<T: PrefixTypeTrait>(table: PrefixRef<T::PrefixFields>) -> Option<&'static str> {
    let entries = size_of::<T::PrefixFields>() / size_of::<usize>();
    let at = (0..entries).find(|at| word(table, *at) == 0)?;
    Some(T::PT_LAYOUT.get_field_name(at).unwrap_or("?"))
}

/// The machine word `at` of the prefix of a table, so that a null is seen before it is read as a function. It must
/// not lie in padding, which only the root has, behind the numbers that open it.
fn word<P>(table: PrefixRef<P>, at: usize) -> usize {
    assert!(at < size_of::<P>() / size_of::<usize>());
    let table = table.to_raw_ptr();
    // SAFETY: a table lives as long as the process, holds at least `P` and is aligned to words; `at` is inside.
    unsafe { (&raw const (*table).value).cast::<usize>().add(at).read() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostServices, Property, PropertySink, Status, VendorTableRef};
    use abi_stable::prefix_type::PrefixTypeTrait;
    use abi_stable::std_types::{RNone, ROption, RStr};

    extern "C" fn probe(_: *const HostServices, _: *const Property, _: u64, _: PropertySink) -> Status {
        Status::OK
    }

    fn root(name: &'static str, kind: u32, vendor: ROption<VendorTableRef>) -> PluginRoot {
        PluginRoot {
            abi_major: ABI_MAJOR,
            abi_minor: 99,
            kind: PluginKind(kind),
            name: RStr::from_str(name),
            version: RStr::from_str("2.1"),
            build: RStr::from_str(""),
            probe,
            vendor,
            net: RNone,
        }
    }

    #[test]
    fn broken_roots_are_refused_with_the_rule_they_break() {
        for (root, rule) in [
            (root("", 1, RNone), "1 to 64 bytes"),
            (root("Bad Name", 1, RNone), "characters other"),
            (root("x", 8, RNone), "kind 8"),
            (root("x", 1, RNone), "lacks the vendor table"),
            (root("x", 2 | 8, RNone), "lacks the net table"),
            (
                PluginRoot {
                    abi_major: 2,
                    ..root("x", 1, RNone)
                },
                "plugin-api 2.99",
            ),
            (
                PluginRoot {
                    abi_major: 0,
                    ..root("x", 1, RNone)
                },
                "plugin-api 0.99",
            ),
        ] {
            let error = check_root(root.leak_into_prefix()).unwrap_err().to_string();
            assert!(error.contains(rule), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }
}
