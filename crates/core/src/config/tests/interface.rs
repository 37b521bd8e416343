//! The choice of network interfaces, on the machine of the field's usual trouble.

use std::net::IpAddr;

use super::*;

fn machine() -> Vec<Interface> {
    let interface = |name: &str, address: &str, up: bool| Interface {
        name: name.to_owned(),
        address: address.parse().expect("an address"),
        up,
    };
    vec![
        interface("lo", "127.0.0.1", true),
        interface("lo", "::1", true),
        interface("eth0", "10.9.0.1", true),
        interface("eth0", "fd00::9:1", true),
        interface("eth0", "fe80::1", true),
        interface("eth1", "10.8.0.1", false),
        interface("docker0", "172.17.0.1", true),
        interface("veth12ab", "169.254.9.1", true),
        interface("ib0", "192.168.4.1", true),
    ]
}

fn chosen(selector: &str) -> Vec<String> {
    let selection = InterfaceSelector::parse(selector)
        .expect(selector)
        .select(&machine());
    selection
        .chosen
        .iter()
        .map(|interface| interface.address.to_string())
        .collect()
}

#[test]
fn the_default_leaves_out_what_never_leads_to_another_host() {
    let selection = InterfaceSelector::default().select(&machine());
    let addresses: Vec<String> = selection.chosen.iter().map(|i| i.address.to_string()).collect();
    assert_eq!(addresses, ["10.9.0.1", "fd00::9:1", "192.168.4.1"]);
    assert_eq!(selection.rejected.len(), machine().len() - 3);
}

#[test]
fn selectors_choose_by_name_pattern_address_and_network() {
    for (selector, want) in [
        ("eth0", &["10.9.0.1", "fd00::9:1"][..]),
        (" eth0 ", &["10.9.0.1", "fd00::9:1"]),
        ("eth0,eth9", &["10.9.0.1", "fd00::9:1"]),
        ("^docker0", &["10.9.0.1", "fd00::9:1", "192.168.4.1"]),
        ("!eth0", &["192.168.4.1"]),
        ("^eth*,^fd00::/8", &["192.168.4.1"]),
        ("10.9.0.0/24", &["10.9.0.1"]),
        ("10.9.0.1", &["10.9.0.1"]),
        ("fd00::/8", &["fd00::9:1"]),
        ("e*,i*,^10.0.0.0/8", &["fd00::9:1", "192.168.4.1"]),
        ("*", &["10.9.0.1", "fd00::9:1", "192.168.4.1"]),
        ("0.0.0.0/0", &["10.9.0.1", "192.168.4.1"]),
        // Taken at their word, since they can mean nothing else.
        ("lo", &["127.0.0.1", "::1"]),
        ("127.0.0.0/8", &["127.0.0.1"]),
        ("docker0", &["172.17.0.1"]),
        ("docker*", &["172.17.0.1"]),
        ("172.17.0.1", &["172.17.0.1"]),
        ("169.254.9.0/24", &["169.254.9.1"]),
        ("eth0,fe80::/10", &["10.9.0.1", "fd00::9:1", "fe80::1"]),
    ] {
        assert_eq!(chosen(selector), want, "{selector}");
    }
}

#[test]
fn an_exclusion_wins_over_an_inclusion() {
    assert_eq!(chosen("lo,eth0,^127.0.0.1"), ["::1", "10.9.0.1", "fd00::9:1"]);
}

#[test]
fn the_family_is_part_of_the_decision() {
    let selector = InterfaceSelector::parse("eth0").expect("valid");
    let ask = |family, address: &str| {
        let address: IpAddr = address.parse().expect("an address");
        selector.clone().with_family(family).matches("eth0", address)
    };
    assert!(ask(AddressFamily::Any, "10.9.0.1").accept && ask(AddressFamily::Ipv4, "10.9.0.1").accept);
    assert!(!ask(AddressFamily::Ipv6, "10.9.0.1").accept);
    assert_eq!(
        ask(AddressFamily::Ipv4, "fd00::9:1").reason,
        "not an IPv4 address"
    );
    assert_eq!(ask(AddressFamily::Ipv6, "fd00::9:1").reason, "chosen by `eth0`");
}

#[test]
fn a_selector_that_fits_nothing_lists_every_interface_with_the_reason() {
    let fail = |selector: &str| {
        let selection = InterfaceSelector::parse(selector)
            .expect(selector)
            .select(&machine());
        selection.require().expect_err(selector).to_string()
    };
    let nope = fail("nope");
    assert!(
        nope.contains("the interface selector `nope` fits no usable interface"),
        "{nope}"
    );
    for interface in machine() {
        assert!(
            nope.contains(&format!("{} {} not in `nope`", interface.name, interface.address)),
            "{nope}"
        );
    }
    assert!(
        nope.contains("INFINICCL_INTERFACE") && nope.contains("10.9.0.0/24"),
        "{nope}"
    );
    let upper = fail("ETH0");
    assert!(
        upper.contains("instead of `ETH0`, did you mean `eth0`?"),
        "{upper}"
    );
    let down = fail("eth1");
    assert!(down.contains("eth1 10.8.0.1 is down"), "{down}");
    let excluded = fail("*,^eth*,^ib0");
    assert!(
        excluded.contains("eth0 10.9.0.1 excluded by `eth*`"),
        "{excluded}"
    );
    assert!(
        excluded.contains("docker0 172.17.0.1 excluded by default (docker*)"),
        "{excluded}"
    );
    let none = InterfaceSelector::default()
        .select(&[])
        .require()
        .expect_err("nothing there")
        .to_string();
    assert!(
        none.contains("the system has no interface with an address"),
        "{none}"
    );
}

#[test]
fn entries_that_fit_nothing_are_told_beside_those_that_do() {
    let selection = InterfaceSelector::parse("eth0,eth9")
        .expect("valid")
        .select(&machine());
    assert_eq!(selection.unmatched, ["eth9"]);
    assert_eq!(selection.require().expect("eth0 is up").len(), 2);
}

#[test]
fn texts_that_are_no_selector_are_refused() {
    for (text, needle) in [
        ("", "the entry \"\" is empty"),
        ("eth0,,eth1", "is empty"),
        ("^", "the entry \"^\" is empty"),
        ("=eth0", "write \"eth0\""),
        (
            "^docker0,lo",
            "write `^docker0,^lo` to exclude both, `lo,^docker0` to include `lo`",
        ),
        ("10.9.0.0/99", "0 to 32"),
        ("10.9.0.1/24", "write `10.9.0.0/24`"),
        ("10.9.0", "not a valid address"),
        ("eth0/24", "neither a name nor a network"),
        ("eth0 eth1", "neither a name nor a network"),
        ("eth[", "never closed"),
    ] {
        let error = InterfaceSelector::parse(text).expect_err(text).to_string();
        assert!(error.contains(needle), "{text}: {error}");
    }
}
