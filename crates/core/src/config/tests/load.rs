//! The search order, the environment, the API, and where plugins are looked for.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

/// A folder with files, and what loading sees of it.
struct World {
    folder: TempDir,
    env: LoadEnv,
}

fn world(files: &[(&str, &str)]) -> World {
    let folder = tempfile::tempdir().expect("a folder for the test");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("inside the folder")).expect("can be made");
        std::fs::write(path, text).expect("can be written");
    }
    let env = LoadEnv {
        working_folder: folder.path().to_path_buf(),
        system_file: folder.path().join("etc/infiniccl.toml"),
        executable_folder: Some(folder.path().join("bin")),
        ..LoadEnv::default()
    };
    World { folder, env }
}

impl World {
    fn set(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.variables.push((name.into(), value.into()));
        self
    }

    fn explicit(mut self, path: &str) -> Self {
        self.env.explicit = Some(PathBuf::from(path));
        self
    }

    fn load(&self) -> Config {
        Config::load_from(&self.env).unwrap_or_else(|found| panic!("{}", found.render()))
    }

    fn fail(&self) -> String {
        Config::load_from(&self.env)
            .expect_err("this must be refused")
            .to_string()
    }
}

fn timeout(seconds: u64) -> String {
    format!("[timeouts]\ncollective = {seconds}\n")
}

#[test]
fn the_first_file_of_the_order_is_taken() {
    let all = [
        ("given.toml", timeout(1)),
        ("env.toml", timeout(2)),
        ("infiniccl.toml", timeout(3)),
        ("conf/infiniccl.toml", timeout(4)),
        ("etc/infiniccl.toml", timeout(5)),
    ];
    for first in 0..=all.len() {
        let files: Vec<(&str, &str)> = all[first..]
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        let mut world = world(&files);
        let mut origin = [
            "given.toml",
            "env.toml",
            "./infiniccl.toml",
            "./conf/infiniccl.toml",
            "",
            "built-in",
        ]
        .map(str::to_owned);
        origin[4] = world.env.system_file.display().to_string();
        if first == 0 {
            world = world.explicit("given.toml");
        }
        if first <= 1 {
            world = world.set("INFINICCL_CONFIG", "env.toml");
        }
        let config = world.load();
        assert_eq!(config.origin().to_string(), origin[first]);
        let seconds = [1, 2, 3, 4, 5, 1800][first];
        assert_eq!(
            config.timeouts.collective,
            Duration::from_secs(seconds),
            "{}",
            config.origin()
        );
        assert_eq!(config.folder().is_none(), first == all.len());
    }
}

#[test]
fn a_named_file_must_be_readable_and_a_default_one_may_be_missing() {
    let given = world(&[("infiniccl.toml", "")]).explicit("none.toml").fail();
    assert!(
        given.contains("none.toml: the file given with --config cannot be read: No such file"),
        "{given}"
    );
    let variable = world(&[("infiniccl.toml", "")])
        .set("INFINICCL_CONFIG", "/nowhere/x.toml")
        .fail();
    assert!(
        variable.contains("/nowhere/x.toml: the file given by INFINICCL_CONFIG cannot be read"),
        "{variable}"
    );
    // An empty variable is how people unset one.
    assert_eq!(
        world(&[]).set("INFINICCL_CONFIG", "").load().origin(),
        &Source::BuiltIn
    );
    // Something is there, but it is no file: passing over it would hide a mistake.
    let folder = world(&[("infiniccl.toml/x", "")]).fail();
    assert!(
        folder.contains("./infiniccl.toml: the file cannot be read: Is a directory"),
        "{folder}"
    );
    let endless = world(&[]).explicit("/dev/zero").fail();
    assert!(endless.contains("larger than 1024 KiB"), "{endless}");
}

#[test]
fn files_in_other_encodings_are_refused_with_the_place() {
    let world = world(&[]);
    for (bytes, want) in [
        (
            &b"check = \"on\"\n# caf\xe9\n"[..],
            "infiniccl.toml:2:6: the file is not UTF-8 text: byte 0xe9",
        ),
        (
            &b"\xff\xfec\0h\0"[..],
            "infiniccl.toml:1:1: the file is UTF-16 text",
        ),
    ] {
        std::fs::write(world.folder.path().join("infiniccl.toml"), bytes).expect("can be written");
        let found = world.fail();
        assert!(
            found.contains(want) && found.contains("save it as UTF-8"),
            "{found}"
        );
    }
}

#[test]
fn a_file_that_everyone_may_write_gives_a_warning() {
    let world = world(&[("infiniccl.toml", "")]);
    assert!(world.load().warnings().is_empty());
    let file = world.folder.path().join("infiniccl.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("own file");
    let config = world.load();
    assert!(
        config.warnings()[0]
            .to_string()
            .contains("every user of this machine may change the file")
    );
}

#[test]
fn later_places_win_and_show() {
    let world = world(&[("infiniccl.toml", "[timeouts]\nconnect = 7\ncollective = 100\n")])
        .set("INFINICCL_TIMEOUT", " 2.5 ")
        .set("INFINICCL_LOG", "debug")
        .set("INFINICCL_INTERFACE", "eth0,^eth1")
        .set("INFINICCL_NODE", "left");
    let mut config = world.load();
    assert_eq!(config.timeouts.collective, Duration::from_millis(2500));
    config.set("timeouts.heartbeat", "3").expect("a right value");
    config.set("log.level", "trace").expect("a right value");
    let shown = |config: &Config, key: &str| {
        let value = config
            .values()
            .into_iter()
            .find(|v| v.key == key)
            .expect("every key has a value");
        let replaced = value.replaced.map(|o| o.to_string());
        (value.value, value.origin.to_string(), replaced)
    };
    let some = |text: &str| Some(text.to_owned());
    for (key, value, origin, replaced) in [
        ("timeouts.connect", "7.0", "./infiniccl.toml:2", None),
        (
            "timeouts.collective",
            "2.5",
            "variable INFINICCL_TIMEOUT",
            some("./infiniccl.toml:3"),
        ),
        ("timeouts.heartbeat", "3.0", "API", None),
        ("log.level", "\"trace\"", "API", some("variable INFINICCL_LOG")),
        ("log.file", "\"\"", "default", None),
        (
            "network.interfaces",
            "[\"eth0\", \"^eth1\"]",
            "variable INFINICCL_INTERFACE",
            None,
        ),
        ("job.node", "\"left\"", "variable INFINICCL_NODE", None),
    ] {
        assert_eq!(
            shown(&config, key),
            (value.to_owned(), origin.to_owned(), replaced),
            "{key}"
        );
    }
}

#[test]
fn wrong_variables_are_errors_beside_those_of_the_file() {
    let found = Config::load_from(
        &world(&[("infiniccl.toml", "chek = 1\n")])
            .set("INFINICCL_TIMEOUT", "5min")
            .set("INFINICCL_INTERFACE", "^docker0,lo")
            .set("INFINICCL_ROOT", "fd00::1:29400")
            .set("INFINICCL_NODE", OsString::from_vec(vec![b'a', 0xff]))
            .env,
    )
    .expect_err("five problems");
    let texts: Vec<String> = found.iter().map(Diagnostic::to_string).collect();
    assert_eq!(texts.len(), 5, "{texts:#?}");
    for (text, want) in texts.iter().zip([
        "./infiniccl.toml:1:1: unknown key `chek` (did you mean `check`?)",
        "variable INFINICCL_INTERFACE: `network.interfaces`: \"^docker0,lo\" reads as if",
        "variable INFINICCL_TIMEOUT: `timeouts.collective`: expected a number of seconds, found the string \"5min\" (write 300",
        "variable INFINICCL_ROOT: `job.root`: expected a host and a port, found the string \"fd00::1:29400\" (write [fd00::1]:29400)",
        "variable INFINICCL_NODE: the value of INFINICCL_NODE is not UTF-8 text",
    ]) {
        assert!(text.starts_with(want), "got  {text}\nwant {want}");
    }
}

#[test]
fn addresses_of_the_root_need_a_port() {
    for right in [
        "10.9.0.1:29400",
        "[fd00::1]:1",
        "node7:65535",
        "node7.example.org:29400",
    ] {
        let config = world(&[]).set("INFINICCL_ROOT", right).load();
        assert_eq!(config.job.root.as_deref(), Some(right));
    }
    for wrong in [
        "10.9.0.1",
        "node7:",
        "node7:0",
        "node7:65536",
        ":29400",
        "node7:x",
    ] {
        let found = world(&[]).set("INFINICCL_ROOT", wrong).fail();
        assert!(
            found.contains("write it as in 10.9.0.1:29400"),
            "{wrong}: {found}"
        );
    }
}

#[test]
fn secrets_are_never_shown() {
    let config = world(&[]).set("INFINICCL_SECRET", "hunter2").load();
    assert_eq!(config.job.secret.as_ref().map(Secret::expose), Some("hunter2"));
    let mut texts = format!("{config:?}");
    for value in config.values() {
        texts.push_str(&format!("{value:?}"));
    }
    texts.push_str(&format!("{:?}", config.agreement_digest_fields()));
    assert!(!texts.contains("hunter2") && texts.contains("(set, not shown)"));
    let both = world(&[])
        .set("INFINICCL_SECRET", "hunter2")
        .set("INFINICCL_SECRET_FILE", "/x")
        .fail();
    assert!(both.contains("both set") && !both.contains("hunter2"), "{both}");
    let binary = OsString::from_vec(b"hunter2\xff".to_vec());
    let binary = world(&[]).set("INFINICCL_SECRET", binary).fail();
    assert!(
        binary.contains("not UTF-8") && !binary.contains("hunter2"),
        "{binary}"
    );
}

#[test]
fn the_api_names_the_nearest_key_and_keeps_the_value_after_an_error() {
    let mut config = Config::built_in();
    let unknown = config
        .set("timeouts.conect", "1")
        .expect_err("no such key")
        .to_string();
    assert!(
        unknown.contains("unknown key `timeouts.conect`: did you mean `timeouts.connect`?"),
        "{unknown}"
    );
    let wrong = config
        .set("timeouts.connect", "1h")
        .expect_err("a unit")
        .to_string();
    assert!(
        wrong.contains("`timeouts.connect`: expected a number of seconds") && wrong.contains("write 3600"),
        "{wrong}"
    );
    assert_eq!(config.timeouts.connect, Duration::from_secs(60));
    assert!(
        config
            .values()
            .iter()
            .all(|value| value.origin == Origin::Default)
    );
    for (key, value) in [
        ("deterministic", "true"),
        ("path.order", "tcp, node"),
        ("algorithm.chunk_bytes", "1M"),
        ("progress.spin_us", "7"),
        ("network.port_range", "5000-5001"),
        ("plugin_dirs", "/a,b"),
        ("job.secret", "s"),
    ] {
        config
            .set(key, value)
            .unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    assert!(config.deterministic);
    assert_eq!(config.path.order, ["tcp", "node"]);
    assert_eq!(
        (config.algorithm.chunk_bytes, config.progress.spin_us),
        (1 << 20, 7)
    );
    assert_eq!(config.network.port_range.bounds(), Some((5000, 5001)));
    assert_eq!(config.plugin_dirs.len(), 2);
}

#[test]
fn plugins_are_looked_for_in_three_places_and_never_by_the_loader() {
    let text = "plugin_dirs = [\"../lib\", \"/opt/p\"]\n\
                [[plugin]]\nkind = \"net\"\npath = \"libx.so\"\n\
                [[plugin]]\nkind = \"net\"\npath = \"/abs/liby.so\"\n";
    let world = world(&[("conf/infiniccl.toml", text)]);
    let root = world.folder.path().to_path_buf();
    let config = world.load();
    assert_eq!(
        config.resolve_plugin(&config.plugins[0]),
        [
            root.join("./conf/libx.so"),
            root.join("./conf/../lib/libx.so"),
            PathBuf::from("/opt/p/libx.so"),
            root.join("bin/libx.so"),
        ]
    );
    assert_eq!(
        config.resolve_plugin(&config.plugins[1]),
        [PathBuf::from("/abs/liby.so")]
    );
    // Without a file, what the API adds is looked for beside the executable alone.
    let mut built_in = Config::load_from(&LoadEnv {
        executable_folder: Some("/opt/bin".into()),
        working_folder: "/somewhere".into(),
        ..LoadEnv::default()
    })
    .expect("no file, no problem");
    built_in
        .plugins
        .push(PluginEntry::new(PluginKind::Net, "libx.so"));
    assert_eq!(
        built_in.resolve_plugin(&built_in.plugins[0]),
        [PathBuf::from("/opt/bin/libx.so")]
    );
}

#[test]
fn plugins_are_chosen_by_host_and_priority_and_names_are_unique_there() {
    let entry = |path: &str, more: &str| format!("[[plugin]]\nkind = \"net\"\npath = \"{path}\"\n{more}\n");
    let text = [
        entry("liba.so", ""),
        entry("libb.so", "priority = 5"),
        entry("libc.so", "hosts = [\"gpu*\"]\npriority = 5"),
        entry("other/libc.so", "hosts = [\"!gpu*\"]"),
    ]
    .concat();
    let config = good(&text);
    let names = |host: &str| -> Vec<String> {
        config
            .plugins_for(host)
            .expect("unique names")
            .iter()
            .map(|e| e.path.display().to_string())
            .collect()
    };
    assert_eq!(names("gpu1"), ["libb.so", "libc.so", "liba.so"]);
    assert_eq!(names("cpu1"), ["libb.so", "liba.so", "other/libc.so"]);
    let twice = good(&[entry("liba.so", ""), entry("x/liba.so.1.2", "")].concat());
    let error = twice.plugins_for("n1").expect_err("two of one name").to_string();
    assert!(
        error.contains("two plugins are called `a` on host n1") && error.contains("conf/test.toml:5"),
        "{error}"
    );
}
