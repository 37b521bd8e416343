//! The two files that are written from the declarations: the reference and the shipped configuration.

use super::declare::{Key, Section};
use super::interface::GRAMMAR;
use super::load::{LOCAL_FILES, SYSTEM_FILE};
use super::schema::{SECTIONS, keys};
use super::variables::{INTERNAL_PREFIXES, variables};

/// The plugins of the project: name, kind, file, what it is for.
const SHIPPED_PLUGINS: &[(&str, &str, &str, &str)] = &[
    (
        "host",
        "vendor",
        "libinfiniccl_host.so",
        "Memory of the host, with collectives over shared memory.",
    ),
    ("net-tcp", "net", "libinfiniccl_net_tcp.so", "TCP sockets."),
];

/// The text of `docs/configuration.md`.
pub fn reference_markdown() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         <!-- Written from the declarations in crates/core/src/config/schema.rs. To change it, change them and run\n\
         UPDATE_DOCS=1 cargo test -p infiniccl config -->\n\n\
         One TOML file, a few environment variables, and what the program sets itself. Later places win: default, \
         file, variable, program. `infiniccl info --config` prints every value in force with its origin; \
         `infiniccl config check` finds everything that is wrong in a file, with line, column and the nearest \
         right key.\n\n\
         A key that nothing knows is an error. A variable that starts with `INFINICCL_` and that nothing reads is \
         a warning.\n\n\
         ## Which file is taken\n\n\
         The first of these:\n\n\
         1. the file given with `--config` (it must be readable)\n\
         2. the file that `INFINICCL_CONFIG` names (it must be readable)\n",
    );
    let searched = LOCAL_FILES.iter().copied().chain([SYSTEM_FILE]);
    for (number, path) in (3..).zip(searched) {
        out.push_str(&format!("{number}. `{path}`, if it exists\n"));
    }
    out.push_str("6. none: the defaults below, and the plugins that are compiled in\n\n");
    out.push_str(
        "The file is UTF-8 text of at most 1 MiB. Relative paths of plugins start at the folder of the file, then \
         at each of `plugin_dirs`, then at the folder of the executable.\n\n\
         Every rank needs the same value for the keys marked \u{2261} below; creating a communicator fails and \
         names the key if they differ.\n\n",
    );
    for section in SECTIONS.iter().filter(|section| !section.variables_only) {
        section_markdown(&mut out, section);
    }
    out.push_str(
        "## Environment variables\n\n\
         Each wins over the file, and shows as the origin of its value. An empty variable counts as unset.\n\n\
         | variable | sets | holds | meaning |\n|---|---|---|---|\n",
    );
    for variable in variables() {
        let key = match variable.key {
            Some(key) if keys().any(|k| k.path() == key && !in_file(k)) => String::new(),
            Some(key) => format!("`{key}`"),
            None => String::new(),
        };
        let row = [
            format!("`{}`", variable.name),
            key,
            variable.type_name.to_owned(),
            variable.help,
        ];
        out.push_str(&format!("| {} |\n", row.map(|cell| cell_text(&cell)).join(" | ")));
    }
    out.push_str(&format!(
        "\nVariables that start with {} are set by parts of the project for each other.\n\n",
        INTERNAL_PREFIXES
            .iter()
            .map(|prefix| format!("`{prefix}`"))
            .collect::<Vec<_>>()
            .join(", ")
    ));
    out.push_str(&format!(
        "## Interface selectors\n\n\
         Each entry of `network.interfaces`, and each part between commas of `INFINICCL_INTERFACE`, is {GRAMMAR}. \
         Names are exact: letter case counts, and `eth1` does not mean `eth10`.\n\n\
         - An exclusion always wins. With inclusions, at least one must fit; without, everything is included.\n\
         - Loopback, `docker*`, `virbr*`, `veth*` and link-local addresses are left out as well, unless an \
         inclusion can mean nothing else: `lo`, `veth*`, `127.0.0.1` and `169.254.7.0/24` are taken at their word, \
         `*` and `0.0.0.0/0` are not. The name of an interface does not bring in its link-local addresses.\n\
         - In one text, inclusions stand before exclusions, and each exclusion has its own mark: `eth*,^eth3`. \
         `^eth3,eth4` is refused, since other libraries read it as the exclusion of both.\n\
         - A selector that fits no interface that is up is an error, which lists all interfaces with the reasons.\n"
    ));
    out
}

fn section_markdown(out: &mut String, section: &Section) {
    let title = if section.name.is_empty() {
        "Above all sections".to_owned()
    } else {
        format!("`{}`", section.header())
    };
    out.push_str(&format!("## {title}\n\n{}\n\n", section.help()));
    out.push_str("| key | type and values | default | meaning |\n|---|---|---|---|\n");
    for key in keys().filter(|key| key.section() == section.name) {
        let mark = if key.must_agree() { " \u{2261}" } else { "" };
        let default = match key.default_text() {
            Some(text) => format!("`{text}`"),
            None => "must be given".to_owned(),
        };
        let mut help = key.help();
        if let Some(variable) = key.variable() {
            help.push_str(&format!(" Variable: `{variable}`."));
        }
        let row = [format!("`{}`{mark}", key.name()), type_text(key), default, help];
        out.push_str(&format!("| {} |\n", row.map(|cell| cell_text(&cell)).join(" | ")));
    }
    out.push('\n');
}

/// The type, then the words to choose from or the range.
fn type_text(key: &Key) -> String {
    let choices = key.choices();
    let words: Vec<String> = choices.iter().map(|word| format!("`{word}`")).collect();
    let mut text = match key.type_name() {
        "string" if !words.is_empty() => words.join(", "),
        "boolean" => key.type_name().to_owned(),
        name if !words.is_empty() => format!("{name}: {}", words.join(", ")),
        name => name.to_owned(),
    };
    if let Some(range) = key.range_text() {
        text.push_str(&format!("; {range}"));
    }
    text
}

fn cell_text(text: &str) -> String {
    text.replace('|', "\\|")
}

fn in_file(key: &Key) -> bool {
    !SECTIONS
        .iter()
        .any(|section| section.name == key.section() && section.variables_only)
}

/// The text of `conf/infiniccl.toml`: every key with its help, commented out at its default or with an example,
/// and the plugins of the project.
///
/// A line that starts with `#` and no blank is a key: without the `#` it holds.
pub fn shipped_file() -> String {
    let mut out = String::from(
        "# InfiniCCL's configuration, as shipped. docs/configuration.md explains every key; `infiniccl config check`\n\
         # checks a file, `infiniccl info --config` prints the values in force.\n\
         #\n\
         # A line that starts with `#` and no blank is a key at its default, or with an example where the default\n\
         # says nothing: take the `#` away to set it.\n\n",
    );
    for section in SECTIONS.iter().filter(|section| !section.variables_only) {
        if section.name == "plugin" {
            shipped_plugins(&mut out, section);
            continue;
        }
        if !section.name.is_empty() {
            comment(&mut out, &section.help_lines().collect::<Vec<_>>());
            out.push_str(&format!(
                "{}{}\n",
                if section.repeated { "#" } else { "" },
                section.header()
            ));
        }
        shipped_keys(&mut out, section);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn shipped_plugins(out: &mut String, section: &Section) {
    comment(out, &section.help_lines().collect::<Vec<_>>());
    out.push_str("#\n");
    for key in keys().filter(|key| key.section() == section.name) {
        let mut lines: Vec<&str> = key.help_lines().collect();
        let first = format!("{}: {}", key.name(), lines.remove(0));
        lines.insert(0, &first);
        comment(out, &lines);
    }
    for (name, kind, file, help) in SHIPPED_PLUGINS {
        out.push_str(&format!(
            "\n# {help}\n[[plugin]]\nname = \"{name}\"\nkind = \"{kind}\"\npath = \"{file}\"\nrequired = false\n"
        ));
        for key in keys().filter(|key| key.section() == section.name) {
            if !["name", "kind", "path", "required"].contains(&key.name()) {
                out.push_str(&format!("#{} = {}\n", key.name(), key.sample()));
            }
        }
    }
    out.push('\n');
}

fn shipped_keys(out: &mut String, section: &Section) {
    for (number, key) in keys().filter(|key| key.section() == section.name).enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let mut lines: Vec<String> = key.help_lines().map(str::to_owned).collect();
        let mut about = type_line(key);
        if let Some(variable) = key.variable() {
            about.push_str(&format!("; variable {variable}"));
        }
        lines.push(about);
        comment(out, &lines.iter().map(String::as_str).collect::<Vec<_>>());
        out.push_str(&format!("#{} = {}\n", key.name(), key.sample()));
    }
}

/// The type, the words or the range, and the default where the example is another value.
fn type_line(key: &Key) -> String {
    let mut text = type_text(key).replace('`', "");
    if let Some(default) = key.default_text().filter(|default| *default != key.sample()) {
        text.push_str(&format!("; default {default}"));
    }
    text
}

fn comment(out: &mut String, lines: &[&str]) {
    for line in lines {
        out.push_str(&format!("# {line}\n"));
    }
}
