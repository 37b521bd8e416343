//! Values of the wrong type or outside their limits, and values in every form that is right.

use std::time::Duration;

use super::*;

/// One value of each TOML type.
const TYPES: &[(&str, &str)] = &[
    ("string", "\"?\""),
    ("integer", "12345"),
    ("float", "1.5"),
    ("boolean", "true"),
    ("date", "1979-05-27"),
    ("list", "[[]]"),
    ("table", "{ \"?\" = [] }"),
];

#[test]
fn each_key_refuses_values_of_other_types_at_their_place() {
    for key in file_keys() {
        let mut refused = 0;
        for (name, value) in TYPES {
            let (text, line) = file_with(key, key.name(), value);
            let Err(found) = parse(&text) else { continue };
            refused += 1;
            let found = found.into_vec();
            assert_eq!(found.len(), 1, "{text}\n{found:#?}");
            assert_eq!(found[0].line(), Some(line), "{text}\n{}", found[0]);
            let column = found[0].column().expect("a place in the file");
            assert!(
                column >= 3 + key.name().len() + 3,
                "{name} for {}: {}",
                key.path(),
                found[0]
            );
            assert!(
                found[0].message.starts_with(&format!("`{}`: ", key.path())),
                "{}",
                found[0]
            );
        }
        // Numbers take integers and floats, some texts take any string; everything else must be refused.
        assert!(
            refused >= 5,
            "{} took {} of {} types",
            key.path(),
            TYPES.len() - refused,
            TYPES.len()
        );
    }
}

#[test]
fn values_that_cannot_be_meant_say_what_to_write() {
    for (text, message, suggestion) in [
        (
            "deterministic = \"true\"",
            "found the string \"true\"",
            "write true, without quotes",
        ),
        ("deterministic = 0", "found the integer 0", "write false"),
        ("check = true", "found the boolean true", "write \"on\""),
        (
            "[timeouts]\nconnect = \"30\"",
            "found the string \"30\"",
            "write 30, without quotes",
        ),
        (
            "[timeouts]\nconnect = \"5min\"",
            "found the string \"5min\"",
            "write 300, without a unit",
        ),
        (
            "[timeouts]\nconnect = \"250 ms\"",
            "found the string",
            "write 0.25, without a unit",
        ),
        (
            "[timeouts]\nconnect = \"4MB\"",
            "found the string \"4MB\"",
            "write a number without a unit",
        ),
        (
            "[timeouts]\nconnect = 0",
            "0 is outside 0.001 to 604800",
            "nothing waits for ever",
        ),
        (
            "[timeouts]\ncollective = -1",
            "-1 is outside",
            "nothing waits for ever",
        ),
        ("[timeouts]\ncollective = inf", "inf is outside", ""),
        ("[timeouts]\ncollective = nan", "NaN is outside", ""),
        ("[timeouts]\nheartbeat = 1e9", "1000000000 is outside", ""),
        (
            "[progress]\nspin_us = \"4MB\"",
            "expected an integer",
            "write a number without a unit",
        ),
        (
            "[progress]\nspin_us = 1.5",
            "expected an integer, found the number 1.5",
            "",
        ),
        ("[progress]\nspin_us = -1", "-1 is outside 0 to 1000000", ""),
        (
            "[progress]\nspin_us = 99999999999999999999999999",
            "is outside 0 to 1000000",
            "",
        ),
        (
            "[network]\nkeepalive = 0.5",
            "expected a whole number of seconds",
            "",
        ),
        (
            "[algorithm]\nchunk_bytes = \"4MB\"",
            "can be read in two ways",
            "write \"4M\" for 4 × 1024^2 bytes, or 4000000",
        ),
        (
            "[algorithm]\nchunk_bytes = \"4XB\"",
            "expected a number of bytes",
            "K, M and G",
        ),
        ("[algorithm]\nchunk_bytes = \"2G\"", "2G is outside 64 to 1G", ""),
        ("[algorithm]\nchunk_bytes = \"99999999999G\"", "too large", ""),
        ("[algorithm]\nchunk_bytes = 63", "63 is outside 64 to 1G", ""),
        (
            "[algorithm]\nchunk_bytes = \"\"",
            "expected a number of bytes",
            "\"4M\"",
        ),
        (
            "[network]\nport_range = 40000",
            "found the integer 40000",
            "\"40000-40100\"",
        ),
        (
            "[network]\nport_range = \"40100-40000\"",
            "the range 40100-40000 is empty",
            "write \"40000-40100\"",
        ),
        (
            "[network]\nport_range = \"1-70000\"",
            "between 1 and 65535",
            "\"40000-40100\"",
        ),
        ("[network]\nport_range = \"0-5\"", "between 1 and 65535", ""),
        (
            "[network]\ninterfaces = [\"eth0\", \"\"]",
            "the entry \"\" is empty",
            "10.9.0.0/24",
        ),
        (
            "[network]\ninterfaces = \"=eth0\"",
            "starts with `=`",
            "write \"eth0\"",
        ),
        (
            "[network]\ninterfaces = [\"10.9.0.7/24\"]",
            "bits after its prefix; write `10.9.0.0/24`",
            "",
        ),
        (
            "[network]\ninterfaces = [\"^docker0,lo\"]",
            "each excluded entry has its own mark",
            "`^docker0,^lo`",
        ),
        (
            "[path]\norder = []",
            "no path would be left",
            "vendor, node, direct, staged, tcp",
        ),
        (
            "[path]\norder = [\"tcp\", \"node\", \"tcp\"]",
            "\"tcp\" stands twice",
            "",
        ),
        (
            "[path]\norder = \"tcp\"",
            "found the string \"tcp\"",
            "in brackets",
        ),
        (
            "[log]\nfile = \"a-%x.log\"",
            "a `%` that stands for nothing",
            "%h, %p, %r",
        ),
        ("[log]\nfile = \"a-%\"", "a `%` that stands for nothing", ""),
        ("[log]\nlevel = \"a b=debug\"", "no target of the log", ""),
        ("plugin_dirs = [\"a\", \"\"]", "found an empty string", ""),
        ("plugin_dirs = \"a\"", "expected a list of folders", "in brackets"),
        (
            "[[plugin]]\nkind = \"net\"\npath = \"\"",
            "found an empty string",
            "",
        ),
        (
            "[[plugin]]\nkind = \"net\"\npath = \"a\\u0000b\"",
            "control characters",
            "",
        ),
        (
            "[[plugin]]\nkind = \"net\"\npath = \"a\"\nname = \"tcp\"",
            "is the name of a tier",
            "another name",
        ),
        (
            "[[plugin]]\nkind = \"net\"\npath = \"a\"\nname = \"a b\"",
            "letters, digits",
            "",
        ),
        (
            "[[plugin]]\nkind = \"net\"\npath = \"a\"\nhosts = []",
            "for no host",
            "[\"*\"]",
        ),
        (
            "[[plugin]]\nkind = \"net\"\npath = \"a\"\nhosts = [\"n[01-16]\"]",
            "a range of numbers",
            "",
        ),
        (
            "[[plugin]]\nkind = \"net\"\npath = \"a\"\nhosts = [\"a,b\"]",
            "no host pattern",
            "one pattern in each",
        ),
        (
            "[[plugin]]\nkind = \"net\"\npath = \"a\"\noptions = { x = [1] }",
            "found a list",
            "`x` as a string",
        ),
        (
            "[[plugin]]\nkind = \"net\"\npath = \"a\"\npriority = 2000000",
            "is outside",
            "",
        ),
        (
            "[[override]]\naction = \"refuse\"\ncollective = \"broadcast\"\nop = \"sum\"",
            "has no operator",
            "leave op out",
        ),
        (
            "[[override]]\naction = \"refuse\"\ncollective = \"barrier\"\ndtype = \"int8\"",
            "has no element type",
            "",
        ),
        (
            "[[override]]\naction = \"native\"\ndtype = \"bool\"\nop = \"avg\"",
            "avg of bool is not defined",
            "",
        ),
        (
            "[[rule]]\ncollective = \"send\"\nalgorithm = \"ring\"",
            "no algorithm to choose",
            "",
        ),
        (
            "[[rule]]\ncollective = \"*\"\nalgorithm = \"ring\"\nmin_bytes = \"2M\"\nmax_bytes = \"1M\"",
            "the rule would never apply",
            "",
        ),
        (
            "[[rule]]\ncollective = \"*\"\nalgorithm = \"ring\"\nmin_ranks = 9\nmax_ranks = 8",
            "the rule would never apply",
            "",
        ),
    ] {
        let diagnostic = problem(text);
        assert!(
            diagnostic.message.contains(message),
            "{text}\n{diagnostic}\nwants: {message}"
        );
        let found = diagnostic.suggestion.as_deref().unwrap_or_default();
        assert!(
            found.contains(suggestion),
            "{text}\n{diagnostic}\nwants: {suggestion}"
        );
    }
}

#[test]
fn right_values_arrive_in_their_fields() {
    let config = good(
        r#"
plugin_dirs = ["../lib", "/opt/plugins"]
check = "off"
verify = "always"
numerics = "vendor"
deterministic = true
auth = "none"
timeouts.connect = 1.5

[path]
order = ["tcp", "net-x"]
fallback = "error"

[network]
interfaces = ["eth*, 10.9.0.0/24", "^eth3"]
address_family = "ipv6"
port_range = "40000-40003"
keepalive = 0

[algorithm]
chunk_bytes = "64KiB"

[progress]
spin_us = 0
yield_us = 1_000

[log]
level = "WARN, infiniccl::exec=Debug"
file = "%h-%p-%r-100%%.log"

[[plugin]]
kind = "vendor"
path = "libinfiniccl_vendor_a.so"
options = { devices = "0,1", streams = 2, ratio = 0.5, trace = true }
priority = -3
required = true
hosts = ["gpu*", "!gpu9"]

[[override]]
plugin = "vendor-a"
collective = "all_reduce"
dtype = "float16"
op = "avg"
action = "emulate"

[[rule]]
collective = "all_reduce"
min_bytes = "1K"
max_bytes = 65536
min_ranks = 2
max_ranks = 16
algorithm = "recursive_doubling"
"#,
    );
    assert_eq!(
        config.plugin_dirs,
        [Path::new("../lib"), Path::new("/opt/plugins")]
    );
    assert_eq!((config.check, config.verify), (Check::Off, Verify::Always));
    assert_eq!(
        (config.numerics, config.auth, config.deterministic),
        (Numerics::Vendor, Auth::None, true)
    );
    assert_eq!(config.timeouts.connect, Duration::from_millis(1500));
    assert_eq!(config.timeouts.collective, Duration::from_secs(1800));
    assert_eq!(
        (config.path.order.join(" "), config.path.fallback),
        ("tcp net-x".to_owned(), Fallback::Error)
    );
    assert_eq!(config.network.interfaces.to_string(), "eth*,10.9.0.0/24,^eth3");
    assert_eq!(config.network.address_family, AddressFamily::Ipv6);
    assert_eq!(
        config.network.port_range.candidates().collect::<Vec<_>>(),
        [40000, 40001, 40002, 40003]
    );
    assert_eq!(config.network.keepalive, Duration::ZERO);
    assert_eq!(config.algorithm.chunk_bytes, 65536);
    assert_eq!((config.progress.spin_us, config.progress.yield_us), (0, 1000));
    assert_eq!(config.log.level, "warn,infiniccl::exec=debug");
    assert_eq!(
        config.log.file.path("n1", 77, Some(3)),
        Some("n1-77-3-100%.log".into())
    );
    assert_eq!(
        config.log.file.path("n1", 77, None),
        Some("n1-77---100%.log".into())
    );
    assert!(config.log.file.needs_rank());

    let plugin = &config.plugins[0];
    assert_eq!(
        (plugin.label(), plugin.kind),
        ("vendor-a".to_owned(), PluginKind::Vendor)
    );
    assert_eq!((plugin.priority, plugin.required), (-3, true));
    let options: Vec<String> = plugin.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(options, ["devices=0,1", "ratio=0.5", "streams=2", "trace=true"]);

    let rule = &config.rules[0];
    assert_eq!(
        (rule.min_bytes, rule.max_bytes, rule.algorithm),
        (1024, 65536, "recursive_doubling")
    );
}

#[test]
fn an_empty_file_is_all_defaults() {
    let (empty, built_in) = (good(""), Config::built_in());
    for (a, b) in empty.values().iter().zip(built_in.values()) {
        assert_eq!((&a.key, &a.value), (&b.key, &b.value));
        assert_eq!(a.origin, Origin::Default);
    }
    assert_eq!(empty.network.port_range.candidates().collect::<Vec<_>>(), [0]);
    assert_eq!(empty.log.file.path("h", 1, Some(0)), None);
    assert_eq!(empty.timeouts.heartbeat, Duration::from_secs(10));
}

#[test]
fn each_default_is_a_right_value_and_the_same_as_none() {
    for key in file_keys() {
        let Some(default) = key.default_text() else {
            continue;
        };
        let (text, _) = file_with(key, key.name(), &default);
        let without = file_with(key, "#", "").0;
        let shown = |config: Config| {
            config
                .values()
                .into_iter()
                .map(|v| (v.key, v.value))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(good(&text)), shown(good(&without)), "{}", key.path());
    }
}

#[test]
fn what_is_shown_can_be_read_again() {
    for key in file_keys().into_iter().filter(|key| key.default_text().is_some()) {
        let (text, _) = file_with(key, key.name(), &key.sample());
        let shown = |config: &Config| {
            let values = config.values();
            let last = |k: &str| k.split("].").last().unwrap_or(k).to_owned();
            let wanted = if key.section().is_empty() || values.iter().any(|v| v.key == key.path()) {
                key.path()
            } else {
                key.name().to_owned()
            };
            values
                .into_iter()
                .find(|v| v.key == wanted || last(&v.key) == wanted)
                .expect("every key has a value")
                .value
        };
        let first = shown(&good(&text));
        let (again, _) = file_with(key, key.name(), &first);
        assert_eq!(shown(&good(&again)), first, "{}", key.path());
    }
}

#[test]
fn hosts_are_matched_by_full_and_short_name() {
    let hosts = |patterns: &str| {
        let text = format!("[[plugin]]\nkind = \"net\"\npath = \"a.so\"\nhosts = {patterns}\n");
        good(&text).plugins[0].hosts.clone()
    };
    for (patterns, yes, no) in [
        ("[\"*\"]", &["a", "a.b.c"][..], &[][..]),
        (
            "[\"gpu*\", \"!gpu9\"]",
            &["gpu1", "gpu1.example.org", "GPU1"],
            &["gpu9", "gpu9.example.org", "cpu1"],
        ),
        ("[\"!login*\"]", &["gpu1"], &["login1", "Login2.x"]),
        (
            "[\"*.rack1.example\"]",
            &["n1.rack1.example"],
            &["n1", "n1.rack2.example"],
        ),
        ("[\"n?\", \"m[1-3]\"]", &["n1", "m2"], &["n10", "m4"]),
    ] {
        let hosts = hosts(patterns);
        assert!(yes.iter().all(|host| hosts.matches(host)), "{patterns}");
        assert!(no.iter().all(|host| !hosts.matches(host)), "{patterns}");
    }
}
