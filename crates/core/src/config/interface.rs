//! The one grammar that chooses network interfaces: names, patterns, addresses, networks, exclusions.

use std::fmt;
use std::net::IpAddr;

use super::choices::AddressFamily;
use super::declare::{Codec, Key, Shape};
use super::glob::Glob;
use super::raw::{Item, Problem, Raw, quoted};
use super::schema::Network;
use super::subnet::Subnet;
use super::suggest::did_you_mean;
use crate::error::{Error, ErrorKind, Result};

/// The grammar in words, for the reference and for messages.
pub(crate) const GRAMMAR: &str = "an interface name (`eth0`), a pattern with `*`, `?` and `[a-z]` (`ib*`), \
     an address (`10.9.0.1`, `fd00::1`) or a network (`10.9.0.0/24`); `^` or `!` in front excludes";

/// Names that are left out unless a selector can only mean them: `(prefix, whether more may follow)`.
const EXCLUDED_NAMES: &[(&str, bool)] = &[("lo", false), ("docker", true), ("virbr", true), ("veth", true)];

/// Networks that are left out unless a selector can only mean them, with their names.
const EXCLUDED_NETWORKS: &[(Subnet, &str)] = &[
    (Subnet::v4([127, 0, 0, 0], 8), "loopback"),
    (Subnet::v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    (Subnet::v4([169, 254, 0, 0], 16), "link-local"),
    (Subnet::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
];

/// A network interface with one of its addresses, as the system reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// One of its addresses; an interface with several appears several times.
    pub address: IpAddr,
    /// Whether it is up.
    pub up: bool,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.address)
    }
}

/// Whether an address is used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is used.
    pub accept: bool,
    /// The reason, in words for the user.
    pub reason: String,
}

/// What a selector makes of a list of interfaces.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The interfaces to use, in the order of the list.
    pub chosen: Vec<Interface>,
    /// The others, each with the reason.
    pub rejected: Vec<(Interface, String)>,
    /// Entries of the selector that fit no interface at all, as written.
    pub unmatched: Vec<String>,
    selector: String,
}

/// Chooses among interfaces; the default takes all but loopback, bridges of containers and link-local ones.
///
/// An exclusion always wins. If there are inclusions, at least one must fit. What is excluded by default stays
/// so, unless an inclusion can mean nothing else: `lo`, `veth*`, `127.0.0.1` and `169.254.7.0/24` are taken at
/// their word, `*` and `0.0.0.0/0` are not.
#[derive(Debug, Clone, Default)]
pub struct InterfaceSelector {
    included: Vec<Entry>,
    excluded: Vec<Entry>,
    family: Option<AddressFamily>,
}

#[derive(Debug, Clone)]
struct Entry {
    text: String,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Name(Glob),
    Subnet(Subnet),
}

impl InterfaceSelector {
    /// Reads entries between commas. The error (kind invalid usage) names the entry and the grammar.
    pub fn parse(text: &str) -> Result<Self> {
        let mut selector = InterfaceSelector::default();
        selector.add(text).map_err(|p| {
            let hint = p.suggestion.map(|s| format!(": {s}")).unwrap_or_default();
            Error::new(
                ErrorKind::InvalidUsage,
                format!("wrong interface selector: {}{hint}", p.message),
            )
            .with("selector", quoted(text))
        })?;
        Ok(selector)
    }

    /// The same selector that also asks for an address family.
    #[must_use]
    pub fn with_family(mut self, family: AddressFamily) -> Self {
        self.family = Some(family);
        self
    }

    /// Whether neither inclusions nor exclusions were written.
    pub fn is_default(&self) -> bool {
        self.included.is_empty() && self.excluded.is_empty()
    }

    /// Whether the interface `name` with `address` is used.
    pub fn matches(&self, name: &str, address: IpAddr) -> Decision {
        let no = |reason: String| Decision {
            accept: false,
            reason,
        };
        match self.family {
            Some(AddressFamily::Ipv4) if address.is_ipv6() => return no("not an IPv4 address".to_owned()),
            Some(AddressFamily::Ipv6) if address.is_ipv4() => return no("not an IPv6 address".to_owned()),
            Some(AddressFamily::Any | AddressFamily::Ipv4 | AddressFamily::Ipv6) | None => {}
        }
        if let Some(entry) = self.excluded.iter().find(|entry| entry.fits(name, address)) {
            return no(format!("excluded by `{}`", entry.text));
        }
        let including: Vec<&Entry> = self
            .included
            .iter()
            .filter(|entry| entry.fits(name, address))
            .collect();
        if including.is_empty() && !self.included.is_empty() {
            let all: Vec<&str> = self.included.iter().map(|entry| entry.text.as_str()).collect();
            return no(format!("not in `{}`", all.join(",")));
        }
        if let Some(why) = excluded_by_default(name, address)
            && !including.iter().any(|entry| entry.means_excluded(address))
        {
            return no(format!("excluded by default ({why}); name it to use it"));
        }
        Decision {
            accept: true,
            reason: match including.first() {
                Some(entry) => format!("chosen by `{}`", entry.text),
                None => "not excluded".to_owned(),
            },
        }
    }

    /// Splits the interfaces into those to use and the others; interfaces that are down are not used.
    pub fn select(&self, interfaces: &[Interface]) -> Selection {
        let mut selection = Selection {
            chosen: Vec::new(),
            rejected: Vec::new(),
            unmatched: self
                .included
                .iter()
                .filter(|entry| !interfaces.iter().any(|i| entry.fits(&i.name, i.address)))
                .map(|entry| entry.text.clone())
                .collect(),
            selector: self.to_string(),
        };
        for interface in interfaces {
            let decision = self.matches(&interface.name, interface.address);
            if !decision.accept {
                selection.rejected.push((interface.clone(), decision.reason));
            } else if !interface.up {
                selection.rejected.push((interface.clone(), "is down".to_owned()));
            } else {
                selection.chosen.push(interface.clone());
            }
        }
        selection
    }

    fn add(&mut self, text: &str) -> std::result::Result<(), Problem> {
        let mut exclusion_before = None;
        for part in text.split(',') {
            let part = part.trim();
            let (negated, pattern) = match part.strip_prefix(['^', '!']) {
                Some(pattern) => (true, pattern.trim_start()),
                None => (false, part),
            };
            let what = what(part, pattern)?;
            match (negated, exclusion_before) {
                (true, None) => exclusion_before = Some(part),
                // Elsewhere `^a,b` excludes both; taken silently as "all of b" it would do the opposite.
                (false, Some(excluded)) => {
                    return Err(Problem::new(format!(
                        "{} reads as if `{pattern}` were excluded, but each excluded entry has its own mark",
                        quoted(text)
                    ))
                    .suggest(format!(
                        "write `{excluded},^{pattern}` to exclude both, `{pattern},{excluded}` to include `{pattern}`"
                    )));
                }
                _ => {}
            }
            let entry = Entry {
                text: pattern.to_owned(),
                what,
            };
            if negated {
                &mut self.excluded
            } else {
                &mut self.included
            }
            .push(entry);
        }
        Ok(())
    }

    /// The entries as they would be written, exclusions last.
    fn entries(&self) -> impl Iterator<Item = String> {
        let included = self.included.iter().map(|entry| entry.text.clone());
        included.chain(self.excluded.iter().map(|entry| format!("^{}", entry.text)))
    }
}

impl fmt::Display for InterfaceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.entries().collect::<Vec<_>>().join(","))
    }
}

impl Selection {
    /// The interfaces to use, or an error (kind invalid usage) that lists all of them with the reasons.
    pub fn require(self) -> Result<Vec<Interface>> {
        if !self.chosen.is_empty() {
            return Ok(self.chosen);
        }
        let mut text = if self.selector.is_empty() {
            "no network interface is usable by default".to_owned()
        } else {
            format!(
                "the interface selector `{}` fits no usable interface",
                self.selector
            )
        };
        if self.rejected.is_empty() {
            text.push_str("; the system has no interface with an address");
        } else {
            text.push_str(": ");
            let reasons: Vec<String> = self
                .rejected
                .iter()
                .map(|(interface, reason)| format!("{interface} {reason}"))
                .collect();
            text.push_str(&reasons.join(", "));
        }
        let names = || self.rejected.iter().map(|(interface, _)| interface.name.as_str());
        for entry in &self.unmatched {
            if let Some(hint) = did_you_mean(entry, names(), |name| format!("`{name}`")) {
                text.push_str(&format!("; instead of `{entry}`, {hint}"));
            }
        }
        text.push_str("; set network.interfaces or INFINICCL_INTERFACE to ");
        text.push_str(GRAMMAR);
        Err(Error::new(ErrorKind::InvalidUsage, text))
    }
}

impl Entry {
    fn fits(&self, name: &str, address: IpAddr) -> bool {
        match &self.what {
            What::Name(glob) => glob.matches(name),
            What::Subnet(network) => network.contains(address),
        }
    }

    /// Whether everything this entry can fit is excluded by default, so that it must mean just that.
    ///
    /// A name never means the link-local addresses of its interface, which most interfaces have beside others.
    fn means_excluded(&self, address: IpAddr) -> bool {
        match &self.what {
            What::Name(_) if is_link_local(address) => false,
            What::Name(glob) if glob.is_exact() => true,
            What::Name(glob) => {
                let prefix = glob.literal_prefix();
                EXCLUDED_NAMES
                    .iter()
                    .any(|(name, longer)| *longer && prefix.starts_with(name))
            }
            What::Subnet(network) if network.is_single() => true,
            What::Subnet(network) => EXCLUDED_NETWORKS
                .iter()
                .any(|(outer, _)| network.is_within(outer)),
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn excluded_by_default(name: &str, address: IpAddr) -> Option<String> {
    for (excluded, longer) in EXCLUDED_NAMES {
        if name == *excluded || *longer && name.starts_with(excluded) {
            return Some(format!("{excluded}{}", if *longer { "*" } else { "" }));
        }
    }
    let network = EXCLUDED_NETWORKS
        .iter()
        .find(|(network, _)| network.contains(address));
    network.map(|(network, name)| format!("{name} {network}"))
}

fn what(written: &str, pattern: &str) -> std::result::Result<What, Problem> {
    let wrong = |message: String| Problem::new(message).suggest(format!("each entry is {GRAMMAR}"));
    if pattern.is_empty() {
        return Err(wrong(format!("the entry {} is empty", quoted(written))));
    }
    if let Some(name) = pattern.strip_prefix('=') {
        let problem = Problem::new(format!("{} starts with `=`", quoted(written)));
        return Err(problem.suggest(format!("a name is exact already: write {}", quoted(name))));
    }
    if let Some(network) = Subnet::parse(pattern).map_err(wrong)? {
        return Ok(What::Subnet(network));
    }
    if pattern.contains('/')
        || pattern.contains(char::is_whitespace)
        || pattern.contains(['^', '!']) && !pattern.contains('[')
    {
        return Err(wrong(format!(
            "{} is neither a name nor a network",
            quoted(written)
        )));
    }
    Glob::parse(pattern).map(What::Name).map_err(wrong)
}

impl Network {
    /// The selector and the address family of the configuration in one.
    pub fn selector(&self) -> InterfaceSelector {
        self.interfaces.clone().with_family(self.address_family)
    }
}

/// Reads an [`InterfaceSelector`] from a list, or from one string with commas.
pub(crate) struct Selectors;

impl Codec for Selectors {
    type Value = InterfaceSelector;
    const TYPE: &'static str = "list of interface selectors, or one string with commas";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> std::result::Result<InterfaceSelector, Problem> {
        let mut selector = InterfaceSelector::default();
        let items = match &item.raw {
            Raw::List(items) => items.as_slice(),
            Raw::Text(_) => std::slice::from_ref(item),
            _ => return Err(item.expected("a list of interface selectors")),
        };
        for item in items {
            let Raw::Text(text) = &item.raw else {
                return Err(item.expected("an interface selector as a string"));
            };
            selector.add(text).map_err(|p| p.at(&item.span))?;
        }
        Ok(selector)
    }

    fn show(value: &InterfaceSelector) -> String {
        format!(
            "[{}]",
            value
                .entries()
                .map(|entry| quoted(&entry))
                .collect::<Vec<_>>()
                .join(", ")
        )
    }
}
