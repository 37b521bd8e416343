//! What ranks compare, and the checks that need to know more than the file.

use infiniccl_reduce::{DataType, ReduceOp};

use super::*;

const ENTRIES: &str = "\
[[override]]
plugin = \"vendor-a\"
collective = \"all_reduce\"
op = \"avg\"
action = \"emulate\"

[[override]]
dtype = \"float8_e4m3\"
action = \"refuse\"

[[rule]]
collective = \"all_reduce\"
max_bytes = \"64K\"
algorithm = \"recursive_doubling\"

[[rule]]
collective = \"*\"
min_ranks = 4
algorithm = \"ring\"
";

#[test]
fn the_pairs_to_compare_are_canonical() {
    let pairs = good(ENTRIES).agreement_digest_fields();
    let keys: Vec<&str> = pairs.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "check",
            "verify",
            "numerics",
            "deterministic",
            "auth",
            "path.order",
            "path.fallback",
            "timeouts.heartbeat",
            "algorithm.chunk_bytes",
            "override",
            "rule",
        ]
    );
    let value = |key: &str| {
        pairs
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
            .unwrap_or_default()
    };
    assert_eq!(value("algorithm.chunk_bytes"), "\"256K\"");
    assert_eq!(
        value("rule"),
        "[{ collective = \"all_reduce\", min_bytes = 0, max_bytes = \"64K\", min_ranks = 1, \
         max_ranks = \"unlimited\", algorithm = \"recursive_doubling\" }, { collective = \"*\", min_bytes = 0, \
         max_bytes = \"unlimited\", min_ranks = 4, max_ranks = \"unlimited\", algorithm = \"ring\" }]"
    );
    // Another spelling of the same values is the same; another value is not; what may differ does not count.
    let same = ENTRIES
        .replace("\"64K\"", "65536")
        .replace("[[rule]]", "\n# again\n[[rule]]");
    let more = format!("timeouts.collective = 5\nlog.level = \"info\"\n{same}");
    assert_eq!(good(&more).agreement_digest_fields(), pairs);
    for other in [
        "numerics = \"vendor\"\n",
        "path.order = [\"tcp\"]\n",
        "algorithm.chunk_bytes = 4096\n",
    ] {
        let other = good(&format!("{other}{ENTRIES}")).agreement_digest_fields();
        assert_eq!(
            other.iter().zip(&pairs).filter(|(a, b)| a != b).count(),
            1,
            "{other:?}"
        );
    }
    let swapped = ENTRIES.replace("\"ring\"", "\"chain\"");
    assert_ne!(good(&swapped).agreement_digest_fields(), pairs);
}

#[test]
fn the_first_entry_that_fits_decides() {
    let config = good(ENTRIES);
    let action = |plugin: &str, collective: &str, dtype, op| {
        config
            .override_for(plugin, collective, dtype, op)
            .map(|entry| entry.action)
    };
    let (half, tiny) = (Some(DataType::Float16), Some(DataType::Float8E4M3));
    let (avg, sum) = (Some(ReduceOp::Avg), Some(ReduceOp::Sum));
    assert_eq!(
        action("vendor-a", "all_reduce", half, avg),
        Some(OverrideAction::Emulate)
    );
    assert_eq!(
        action("vendor-a", "all_reduce", tiny, avg),
        Some(OverrideAction::Emulate)
    );
    assert_eq!(action("vendor-a", "all_reduce", half, sum), None);
    assert_eq!(action("vendor-b", "all_reduce", half, avg), None);
    assert_eq!(
        action("vendor-b", "broadcast", tiny, None),
        Some(OverrideAction::Refuse)
    );
    assert_eq!(action("vendor-a", "barrier", None, None), None);

    let rule =
        |collective: &str, bytes, ranks| config.rule_for(collective, bytes, ranks).map(|r| r.algorithm);
    assert_eq!(rule("all_reduce", 65536, 2), Some("recursive_doubling"));
    assert_eq!(rule("all_reduce", 65537, 2), None);
    assert_eq!(rule("all_reduce", 65537, 4), Some("ring"));
    assert_eq!(rule("broadcast", 1, 4), Some("ring"));
}

#[test]
fn names_of_plugins_are_checked_when_the_plugins_are_known() {
    let text = "path.order = [\"node\", \"net-ib\", \"net-tpc\", \"stagd\"]\n\
                [[plugin]]\nkind = \"net\"\npath = \"libinfiniccl_net_ib.so\"\n\
                [[override]]\nplugin = \"hosts\"\naction = \"refuse\"\n\
                [[override]]\nplugin = \"net-ib\"\naction = \"refuse\"\n";
    let found: Vec<String> = good(text)
        .unknown_plugin_names(&["host", "net-tcp"])
        .iter()
        .map(Diagnostic::to_string)
        .collect();
    assert_eq!(
        found,
        [
            "conf/test.toml:1:6: `path.order`: \"net-tpc\" is the name of no tier or plugin (did you mean \"net-tcp\"?)",
            "conf/test.toml:1:6: `path.order`: \"stagd\" is the name of no tier or plugin (did you mean \"staged\"?)",
            "conf/test.toml:6:1: `override[0].plugin`: \"hosts\" is the name of no plugin (did you mean \"host\"?)",
        ]
    );
    assert!(Config::built_in().unknown_plugin_names(&[]).is_empty());
}

#[test]
fn rules_for_algorithms_that_a_collective_lacks_are_found() {
    let offered = |collective: &str, algorithm: &str| match collective {
        "all_reduce" => matches!(algorithm, "ring" | "recursive_doubling"),
        "broadcast" => algorithm == "chain",
        _ => false,
    };
    assert!(good(ENTRIES).impossible_rules(offered).is_empty());
    let text = "[[rule]]\ncollective = \"broadcast\"\nalgorithm = \"ring\"\n[[rule]]\ncollective = \"*\"\nalgorithm = \"bruck\"\n";
    let found: Vec<String> = good(text)
        .impossible_rules(offered)
        .iter()
        .map(Diagnostic::to_string)
        .collect();
    assert_eq!(
        found,
        [
            "conf/test.toml:3:1: there is no algorithm \"ring\" for broadcast (there are chain)",
            "conf/test.toml:6:1: there is no algorithm \"bruck\" for any collective",
        ]
    );
}

#[test]
fn every_value_has_its_key_and_place() {
    let config = good(ENTRIES);
    let values = config.values();
    let line = |key: &str| {
        let value = values
            .iter()
            .find(|v| v.key == key)
            .unwrap_or_else(|| panic!("{key} is missing"));
        format!("{} = {} ({})", value.key, value.value, value.origin)
    };
    assert_eq!(
        line("override[0].action"),
        "override[0].action = \"emulate\" (conf/test.toml:5)"
    );
    assert_eq!(line("override[0].dtype"), "override[0].dtype = \"*\" (default)");
    assert_eq!(
        line("rule[1].min_ranks"),
        "rule[1].min_ranks = 4 (conf/test.toml:18)"
    );
    let scalars = keys()
        .filter(|k| !SECTIONS.iter().any(|s| s.repeated && s.name == k.section()))
        .count();
    let of = |table: &str| keys().filter(|k| k.section() == table).count();
    assert_eq!(values.len(), scalars + 2 * of("override") + 2 * of("rule"));
}
