//! Builds the fixture plugins: one cargo workspace with edited copies of plugin-api, made from the present source,
//! and small C libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A cold build on a busy machine of two cores stays far below this.
const BUILD_LIMIT: Duration = Duration::from_secs(600);

/// The symbol that a plugin exports.
pub(crate) const SYMBOL: &str = "_1as_0lib_1header_0root_bmodule_bloader";

/// An edited copy of plugin-api: its version, and what is replaced in its source, exactly once each.
struct Edition {
    name: &'static str,
    version: &'static str,
    edits: &'static [(&'static str, &'static str, &'static str)],
}

const LAST_FIELD: &str = "pub last_error: extern \"C\" fn(text: Buffer) -> Status,\n";

const EDITIONS: [Edition; 4] = [
    // A later minor version: both tables got a function at their end.
    Edition {
        name: "newer",
        version: "1.1.0",
        edits: &[
            ("lib.rs", "ABI_MINOR: u32 = 0", "ABI_MINOR: u32 = 1"),
            (
                "vendor.rs",
                LAST_FIELD,
                "pub last_error: extern \"C\" fn(text: Buffer) -> Status,\n    /// Appended in 1.1.\n    pub appended: extern \"C\" fn() -> u64,\n",
            ),
            (
                "net.rs",
                LAST_FIELD,
                "pub last_error: extern \"C\" fn(text: Buffer) -> Status,\n    /// Appended in 1.1.\n    pub appended: extern \"C\" fn() -> u64,\n",
            ),
        ],
    },
    // What must never happen: a function lost an argument.
    Edition {
        name: "signature",
        version: "1.0.1",
        edits: &[(
            "vendor.rs",
            "pub mem_free: extern \"C\" fn(device: DeviceHandle, kind: MemKind, ptr: *mut u8)",
            "pub mem_free: extern \"C\" fn(device: DeviceHandle, ptr: *mut u8)",
        )],
    },
    // What must never happen: an argument struct grew.
    Edition {
        name: "structure",
        version: "1.0.2",
        edits: &[(
            "descriptors.rs",
            "    pub src_kind: MemKind,\n",
            "    pub src_kind: MemKind,\n    /// New.\n    pub stride: u64,\n",
        )],
    },
    // The next major version.
    Edition {
        name: "major",
        version: "2.0.0",
        edits: &[("lib.rs", "ABI_MAJOR: u32 = 1", "ABI_MAJOR: u32 = 2")],
    },
];

/// Plugins that break one rule each; the files in `fixtures/variants/`.
const VARIANTS: [&str; 7] = [
    "root_panics",
    "bad_name",
    "no_table",
    "no_kind",
    "abi_zero",
    "null_entry",
    "no_layout",
];

/// The built fixtures.
pub(crate) struct Fixtures {
    target: PathBuf,
}

impl Fixtures {
    /// The fixtures, built by the first call of this process; several processes take turns.
    pub(crate) fn get() -> &'static Fixtures {
        static BUILT: OnceLock<Fixtures> = OnceLock::new();
        BUILT.get_or_init(build)
    }

    /// The sound plugin, built against the `present` plugin-api or one of the editions.
    pub(crate) fn plugin(&self, edition: &str) -> PathBuf {
        self.target.join(format!("libfixture_{edition}.so"))
    }

    /// A plugin that breaks one rule.
    pub(crate) fn variant(&self, name: &str) -> PathBuf {
        self.target.join(format!("examples/lib{name}.so"))
    }

    /// The host program that was built against the newer plugin-api.
    pub(crate) fn newer_host(&self) -> PathBuf {
        self.target.join("newer-host")
    }
}

/// A shared library made from C in `folder`; `arguments` are added for the linker.
pub(crate) fn c_library(folder: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let output = folder.join(format!("lib{name}.so"));
    compile(source, &output, &[&["-shared", "-fPIC"], arguments].concat());
    output
}

/// Compiles C to `output`.
pub(crate) fn compile(source: &str, output: &Path, arguments: &[&str]) {
    let file = output.with_extension("c");
    fs::write(&file, source).unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(output).arg(&file).args(arguments);
    run(&mut cc, Duration::from_secs(60));
}

/// The root of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
}

/// Runs a command that must succeed, and kills it at the limit.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Output {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{shown}: {e}"));
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("{shown} did not end within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    assert!(
        status.success(),
        "{shown}: {status}\n{}",
        String::from_utf8_lossy(&stderr)
    );
    Output {
        status,
        stdout,
        stderr,
    }
}

fn drain(pipe: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).unwrap();
        }
        bytes
    })
}

fn build() -> Fixtures {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi");
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::File::create(folder.join("turn")).unwrap();
    lock.lock().unwrap();
    generate(&folder);
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "build",
            "--offline",
            "--workspace",
            "--lib",
            "--bins",
            "--examples",
            "--manifest-path",
        ])
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(folder.join("target"))
        .current_dir(repository());
    // What the outer cargo set for this package must not leak into the inner one.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
    ] {
        cargo.env_remove(name);
    }
    run(&mut cargo, BUILD_LIMIT);
    Fixtures {
        target: folder.join("target/debug"),
    }
}

/// Writes the workspace; files that are right already are not touched, so that cargo builds only what changed.
fn generate(folder: &Path) {
    let api = repository().join("crates/plugin-api");
    let manifest: toml::Table = read(&api.join("Cargo.toml")).parse().unwrap();
    let present = manifest["package"]["version"].as_str().unwrap();
    for edition in &EDITIONS {
        copy_api(&api, &folder.join(format!("api-{}", edition.name)), edition);
    }
    let library = |name: &str| {
        let path = repository().join("tests/fixtures/plugin.rs");
        format!("\n[lib]\nname = \"fixture_{name}\"\npath = {path:?}\ncrate-type = [\"cdylib\"]\n")
    };
    let host = repository().join("tests/fixtures/host.rs");
    let host = format!("\n[[bin]]\nname = \"newer-host\"\npath = {host:?}\n");
    let variants = VARIANTS.map(|name| {
        let path = repository().join(format!("tests/fixtures/variants/{name}.rs"));
        format!("\n[[example]]\nname = \"{name}\"\npath = {path:?}\ncrate-type = [\"cdylib\"]\n")
    });
    let mut packages = vec![
        ("present", "present", library("present")),
        ("variants", "present", variants.concat()),
        ("host", "newer", host),
    ];
    packages.extend(
        EDITIONS
            .iter()
            .map(|edition| (edition.name, edition.name, library(edition.name))),
    );
    for (patch, (name, edition, targets)) in packages.iter().enumerate() {
        let api = if *edition == "present" {
            api.clone()
        } else {
            folder.join(format!("api-{edition}"))
        };
        let manifest = format!(
            "[package]\nname = \"fixture-{name}\"\nversion = \"7.0.{}\"\nedition = \"2024\"\npublish = false\n\n\
             [features]\ndefault = [\"{edition}\"]\npresent = []\nnewer = []\nsignature = []\nstructure = []\nmajor = []\n\n\
             [dependencies]\ninfiniccl-plugin-api = {{ path = {api:?} }}\n{targets}",
            patch + 1
        );
        write(&folder.join(name).join("Cargo.toml"), &manifest);
    }
    let names: Vec<&str> = packages.iter().map(|(name, ..)| *name).collect();
    let copies: Vec<String> = EDITIONS
        .iter()
        .map(|edition| format!("api-{}", edition.name))
        .collect();
    let root = format!(
        "[workspace]\nresolver = \"3\"\nmembers = {names:?}\nexclude = {copies:?}\n\n\
         [profile.dev]\ndebug = false\nincremental = false\n"
    );
    write(&folder.join("Cargo.toml"), &root);
    // The versions of the repository, which are downloaded already; cargo drops what is not needed.
    let lock = folder.join("Cargo.lock");
    if !lock.exists() {
        fs::copy(repository().join("Cargo.lock"), lock).unwrap();
    }
    assert_eq!(
        present, "1.0.0",
        "the editions above are made from plugin-api 1.0.0: renumber them"
    );
}

fn copy_api(api: &Path, copy: &Path, edition: &Edition) {
    let mut edits: Vec<_> = edition.edits.iter().collect();
    for file in files(&api.join("src")) {
        let relative = file.strip_prefix(api.join("src")).unwrap();
        let mut text = read(&file);
        edits.retain(|(name, old, new)| {
            if relative != Path::new(name) {
                return true;
            }
            assert_eq!(text.matches(old).count(), 1, "{name} must hold once: {old}");
            text = text.replacen(old, new, 1);
            false
        });
        write(&copy.join("src").join(relative), &text);
    }
    assert!(edits.is_empty(), "{}: no such file: {edits:?}", edition.name);
    write(&copy.join("build.rs"), &read(&api.join("build.rs")));

    // A copy lies outside of the workspace that its manifest inherits from, so what it inherits is written out.
    let outer: toml::Table = read(&repository().join("Cargo.toml")).parse().unwrap();
    let mut manifest: toml::Table = read(&api.join("Cargo.toml")).parse().unwrap();
    for (section, shared) in [
        ("package", &outer["workspace"]["package"]),
        ("dependencies", &outer["workspace"]["dependencies"]),
    ] {
        for (key, value) in manifest[section].as_table_mut().unwrap() {
            if value.get("workspace").is_some() {
                *value = shared[key].clone();
            }
        }
    }
    manifest["package"]["version"] = edition.version.into();
    manifest.remove("dev-dependencies");
    manifest.remove("lints");
    write(&copy.join("Cargo.toml"), &toml::to_string(&manifest).unwrap());
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn write(file: &Path, text: &str) {
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return;
    }
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}
